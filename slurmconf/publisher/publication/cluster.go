package publication

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// Cluster is a complete Publication and what follows from it.
type Cluster struct {
	Publication
	// Release is the Slurm release that the files are made for: slurmVersion, else Seen, else
	// slurmconf.Unseen. Seen is the release that is known to run, or 0.
	Release, Seen slurmconf.Release
	// YAML says that the topology file is topology.yaml: it is configured, or the release takes it.
	YAML bool
	// Rules say which nodes the publication takes and how Slurm calls them.
	Rules inputs.Rules
	// Annotates says that Nodes get an annotation: it is configured, and the release takes
	// it.
	Annotates bool
	// Times are the waits that no site chooses.
	Times Times
	// leftOut is Gres.LeaveOut by node.
	leftOut map[string][]string
}

// Compile fills in the defaults of all publications, whose names differ, and checks them
// together. No publication stands for one with all defaults. The error joins one *FieldError
// for each value that cannot be. selector reads a label selector; it may be nil if no
// publication has one.
func Compile(pubs []Publication, selector func(text string) (inputs.Selector, error)) ([]*Cluster, error) {
	if len(pubs) == 0 {
		pubs = []Publication{{}}
	}
	var all []*Cluster
	var wrong []error
	places := map[plandoc.Location]string{}
	for i := range pubs {
		c := &Cluster{Publication: pubs[i], Times: DefaultTimes()}
		c.complete()
		found := c.check(selector)
		if other, taken := places[c.Place()]; taken {
			found = append(found, &FieldError{Name: c.Name, Key: "configMap", Message: fmt.Sprintf("%s also belongs to publication %q: give each its own, or leave configMap out", c.Place(), other)})
		}
		places[c.Place()] = c.Name
		for _, e := range found {
			wrong = append(wrong, e)
		}
		all = append(all, c)
	}
	return all, errors.Join(wrong...)
}

// Follow takes the release of the Slurm that runs, or 0 if none is seen. The files are made for that release,
// unless slurmVersion names one. stored is the stored plan, or nil. Without slurmVersion, the release of the
// stored plan holds while none is seen: a moment without an answer changes no file. A stored topology.conf
// stays with newer releases too, because a site may link the file by its name.
func (c *Cluster) Follow(seen slurmconf.Release, stored *plandoc.Plan) {
	c.Seen = seen
	keep := false
	if c.SlurmVersion == "" {
		keep = stored != nil && stored.Format == formatConf
		if seen == 0 && stored != nil {
			c.Seen = slurmconf.SeenRelease(stored.Policy[keySlurmVersion])
		}
		c.Release = cmp.Or(c.Seen, slurmconf.Unseen)
	}
	c.YAML = c.Format == formatYAML || c.Format == "" && c.Release.Does(slurmconf.TopologyYAML) && !keep
	c.Annotates = *c.Annotate && c.Release.Does(slurmconf.DynamicTopology)
}

// Guesses reports whether nobody knows which release loads the files, so that they are for
// slurmconf.Unseen and newer.
func (c *Cluster) Guesses() bool { return c.SlurmVersion == "" && c.Seen == 0 && !c.withoutSlurm() }

// FileFormat is the form of the topology file: conf or yaml.
func (c *Cluster) FileFormat() string {
	if c.YAML {
		return formatYAML
	}
	return formatConf
}

// keySlurmVersion is the key of the release among those that the plan was made by.
const keySlurmVersion = "slurmVersion"

// The forms of the topology file.
const (
	formatConf = "conf"
	formatYAML = "yaml"
)

// Place is where the files are stored.
func (p *Publication) Place() plandoc.Location {
	return plandoc.Location{Namespace: p.Namespace, Name: p.ConfigMap}
}

// GresOptions is how gres.conf is made.
func (c *Cluster) GresOptions() gres.Options {
	return gres.Options{Naming: gres.Naming(c.Gres.Naming), Types: c.Gres.Types, LeaveOut: c.leftOut, Cores: c.Gres.Cores, AutoDetect: c.Gres.AutoDetect, SeveralSockets: !c.Release.Does(slurmconf.CoresOfOneSocket)}
}

// FabricSite is what is known of NVLink fabrics beside the facts of the nodes. plan is the published plan, or nil.
// since says by Node since when a fabric is not ready.
func (c *Cluster) FabricSite(plan *topology.Plan, since map[string]time.Time) *fabric.Site {
	s := &fabric.Site{Bounds: fabric.Bounds(c.MaxDomainGPUs), Partitions: c.FabricPartitions, DomainLabels: c.LabelKeys().Domains, Since: make(map[string]string, len(since))}
	if c.BlocksBy != "leaf" {
		s.Plan = plan
	}
	for node, at := range since {
		s.Since[node] = plandoc.SinceText(at)
	}
	return s
}

// AnyFabrics joins what all publications say of NVLink fabrics, for agents and for nodes that no pass has judged.
func AnyFabrics(all []*Cluster) *fabric.Site {
	s := &fabric.Site{Bounds: fabric.Bounds{}}
	for _, c := range all {
		maps.Copy(s.Bounds, c.MaxDomainGPUs)
		s.Partitions = s.Partitions || c.FabricPartitions
	}
	return s
}

// Policy is what the plan is made by.
func (c *Cluster) Policy() placement.Policy {
	return placement.Policy{EmptyLeaves: c.Release.Does(slurmconf.EmptyUnits), BaseBlockSize: c.BaseBlockSize, BlockSizes: c.BlockSizes,
		MaxDomainGPUs: fabric.Bounds(c.MaxDomainGPUs), Forget: c.ForgetBlocks, ForgetSwitches: c.ForgetSwitches, Tiers: c.tiers(), Cables: len(c.FabricFiles) > 0, ByLeaf: c.BlocksBy == "leaf",
		ParentBlocks: c.ParentBlocks, Flat: c.FlatTopology || c.DefaultTopology == topology.FlatTopology, TreeOnly: c.Topology == string(slurmconf.KindTree),
		BlocksOnly: c.Topology == string(slurmconf.KindBlock), OtherDefault: c.DefaultTopology == topology.FabricTopology || c.DefaultTopology == topology.FlatTopology, Annotates: c.Annotates,
		SizeClasses: c.SizeClasses, OneTopology: !c.YAML,
		RootSwitch: c.RootSwitch, SeparateFabrics: c.Fabrics == fabricsSeparate}
}

// Keys are the keys that decide what is planned and written, and their values as text. A
// key without a value is absent, and so is the namespace if no worker pods are looked at.
func (c *Cluster) Keys() map[string]string {
	keys := c.planKeys()
	if len(c.Rules.PodNamespaces()) == 0 {
		delete(keys, "namespace")
	}
	if c.SlurmVersion == "" && c.Seen != 0 {
		keys[keySlurmVersion] = c.Seen.String()
	}
	keys["format"] = c.FileFormat()
	return keys
}

// Choice is what is written of the plan.
func (c *Cluster) Choice() slurmconf.Choice {
	return slurmconf.Choice{Kind: slurmconf.Kind(c.Topology), YAML: c.YAML, Default: c.DefaultTopology, Flat: c.FlatTopology}
}

// FabricFiles are the fabricFiles of all publications, each once.
func FabricFiles(clusters []*Cluster) (all []string) {
	for _, c := range clusters {
		all = append(all, c.FabricFiles...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// tiers is how many tiers of switches the site has, 0 if its labels are not configured or its cables
// are read.
func (c *Cluster) tiers() int {
	if slices.Contains(c.TierLabels, nodelabels.Auto) || len(c.FabricFiles) > 0 {
		return 0
	}
	return len(c.TierLabels)
}

// LabelKeys name the labels that say where a node is.
func (c *Cluster) LabelKeys() nodelabels.Keys {
	return nodelabels.Keys{Domains: c.DomainLabels, Tiers: c.TierLabels}
}
