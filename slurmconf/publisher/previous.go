package publisher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// Previous is what is published. The next plan continues from it. Its zero value is that
// of nothing.
type Previous struct {
	// Plan is nil if nothing is published. Its configured topologies come first. It has none if
	// gres.conf alone is published.
	Plan *topology.Plan
	// stored is the plan as the files have it. Its Devices have the names that the nodes have now.
	stored plandoc.Plan
	// Gres has the lines of gres.conf by node.
	Gres map[string][]gres.Line
	// Groups are the groups of switches that are remembered.
	Groups []switches.Group
	// renamed are the Nodes whose name differs from the files, by their new name.
	renamed []renamed
	// seeded says that a seed is published, which slurmctld may have started with.
	seeded bool
}

// ReadPlan returns what the next plan of p continues from. It puts the configured topologies
// first, even if retired ones precede them in the file, so that a configuration change can be
// reverted while they are still there.
func ReadPlan(p *publication.Cluster, stored *plandoc.Plan) (prev Previous) {
	prev.Gres = gres.ByNode(stored.Devices, nil)
	if stored.Format == "" { // no revision
		return prev
	}
	prev.stored = *stored
	plan := stored.Plan
	plan.Topologies = slices.Clone(stored.Topologies)
	names := slurmconf.NamesOf(p.Policy().ByLeaf, p.YAML)
	names.SortFirst(plan.Topologies)
	if own := plan.BlockTopologies(); len(own) > 0 && own[0].Name != topology.ConfTopology { // which may be others than before
		plan.ByLeaf = plan.NamesLeaves()
	}
	prev.Plan = &plan
	return prev
}

// asNow returns the published plan with the names that nodes have now, or nil if nothing is published.
func (prev *Previous) asNow() *plandoc.Plan {
	if prev.Plan == nil {
		return nil
	}
	old := prev.stored
	old.Plan = *prev.Plan
	return &old
}

// nodes are the nodes of all files.
func (prev Previous) nodes() []string {
	if prev.Plan == nil {
		return nil
	}
	placed := prev.Plan.Places()
	names := slices.Collect(maps.Keys(placed))
	for n := range prev.Gres {
		if _, ok := placed[n]; !ok {
			names = append(names, n)
		}
	}
	return names
}

// lists reports whether the published gres.conf lists devices.
func (prev *Previous) lists() bool {
	return prev.stored.Detect == "" && slices.ContainsFunc(slices.Concat(prev.stored.Devices, prev.stored.Gres), func(l gres.Line) bool { return l.AutoDetect == "" })
}

// specs are the Topology= strings that go with the files of p: those of the configured
// topologies, or of all if none is configured. The others are on their way out of the file.
func (prev *Previous) specs(p *publication.Cluster) map[string]string {
	if prev.Plan == nil {
		return nil
	}
	configured := topology.Plan{Topologies: slices.DeleteFunc(slices.Clone(prev.Plan.Topologies), func(t topology.Topology) bool {
		return (t.Name == topology.ConfTopology) == p.YAML || p.Topology != string(slurmconf.KindAuto) && p.Topology != t.Kind
	})}
	own := configured.Own()
	if len(own) == 0 {
		own = prev.Plan.Own()
	}
	return topology.SpecsOf(own)
}

// staysFlat reports whether the topology file is to be flat although the configuration does not say
// so, because slurmctld has a topology file that must not vanish. A seed becomes flat when facts say
// that NVLink ends in the nodes, and no place is known. A flat topology stays for good, because a
// partition may name it, unless it was configured and places take over.
func (prev *Previous) staysFlat(plan *topology.Plan, facts []topology.Facts) bool {
	if prev.seeded && len(plan.Own()) == 0 && slices.ContainsFunc(facts, func(f topology.Facts) bool { return f.Fabric.IMEX == topology.IMEXNone }) {
		return true
	}
	old := prev.Plan
	if old == nil || !slices.ContainsFunc(old.Topologies, func(t topology.Topology) bool { return t.Kind == topology.KindFlat }) {
		return false
	}
	configured := prev.stored.Policy["flatTopology"] != "" || prev.stored.Policy["defaultTopology"] == topology.FlatTopology
	return !configured || len(old.Own()) == 0
}

// unitsInUse are topologies ("topology:") and units that Node annotations name.
type unitsInUse map[string]bool

// namedBy returns the topologies and units that Node annotations name.
func namedBy(g *gathered) unitsInUse {
	named, read := unitsInUse{}, map[string]bool{}
	add := func(n *inputs.Node) {
		spec := n.Annotations[plandoc.SpecAnnotation]
		if read[spec] {
			return
		}
		read[spec] = true
		for name := range topology.SpecUnits(spec) {
			of, unit, ok := strings.Cut(name, ":")
			if !ok {
				continue
			}
			named[of+":"] = true
			switch topology.BlockFamily(of) {
			case topology.NVLinkTopology, topology.LeafTopology, topology.FabricTopology, topology.ConfTopology:
				named[unit] = true
			}
		}
	}
	for _, n := range g.All {
		add(n)
	}
	for _, n := range g.toMark() {
		add(n)
	}
	return named
}

// unitHistory says since when no annotation names the topologies and units of the files.
type unitHistory struct{ unnamed map[string]time.Time }

// inUse returns the topologies, blocks and leaf switches that Slurm's nodes may be registered
// with: those that Node annotations name, or named less than the given time ago. They stay in the
// files. slurmctld drains a node that registers with an unknown unit, and does not start while
// such a node is registered. next is when one of them may leave the files, or zero.
func (u *unitHistory) inUse(published *topology.Plan, named unitsInUse, after time.Duration, now time.Time) (inUse unitsInUse, next time.Time) {
	if published == nil {
		return nil, next
	}
	unnamed := map[string]time.Time{}
	var timer again.Timer
	for _, name := range unitsOf(published) {
		if named[name] {
			continue
		}
		since := sinceOf(u.unnamed[name], now)
		unnamed[name] = since
		if until := since.Add(after); now.Before(until) {
			named[name] = true
			timer.At(until)
		}
	}
	u.unnamed = unnamed
	return named, timer.Next()
}

// unitsOf are the topologies, blocks and leaf switches of a plan.
func unitsOf(plan *topology.Plan) []string {
	var out []string
	for i := range plan.Topologies {
		out = append(out, plan.Topologies[i].Name+":")
	}
	for _, u := range plan.Units() {
		out = append(out, u.Name)
	}
	return out
}

// inUse reports whether an annotation may still name the published topology t.
func (n unitsInUse) inUse(t *topology.Topology) bool {
	return t.Kind != topology.KindFlat && n[t.Name+":"]
}

// keepTopologies returns the topologies of the file: it adds published topologies that are no longer configured and that Node
// annotations still name. topology.conf holds one topology, so then a topology.yaml
// beside it holds them.
func (m *Rendered) keepTopologies(p *publication.Cluster, prev *Previous, named unitsInUse) []topology.Topology {
	out := m.topologies
	if prev.Plan == nil || !p.Annotates {
		return out
	}
	for _, t := range prev.Plan.Topologies {
		if !named.inUse(&t) || slices.ContainsFunc(m.topologies, func(own topology.Topology) bool { return own.Name == t.Name }) {
			continue
		}
		t.Default = false
		out = append(out[:len(out):len(out)], t)
		m.FilePlan.Problems = append(m.FilePlan.Problems, topology.Finding{Reason: placement.TopologyInUse,
			Message: fmt.Sprintf("topology %s is no longer configured; it stays in the file until no Node annotation has named it for %s", t.Name, p.LoadTimeout.Duration)})
	}
	return out
}
