package publisher

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// Publication is one Slurm cluster's set of files: which nodes it takes, how
// Slurm names them, what is written and where. The zero value of a field means
// its default.
type Publication struct {
	// Name is unique among the publications.
	Name string `yaml:"name"`
	// Namespace and ConfigMap are where the files appear; with a directory
	// store, the folder <output>/<namespace>/<configMap>.
	Namespace string `yaml:"namespace"`
	ConfigMap string `yaml:"configMap"`
	// Nodes chooses among the cluster's nodes.
	Nodes Selection `yaml:"nodes"`
	// SlurmNames says how a node is called in Slurm: "short" (up to the first
	// dot), "full", "label:KEY", "annotation:KEY", "s/REGEXP/REPLACEMENT/", which the
	// whole of the node's name must match, or as Slinky's pods say: "slinky",
	// "slinky:CONTROLLER" or "slinky:NAMESPACE/CONTROLLER", by default that of the
	// publication. Where Nodes.Slinky is set it is that by default.
	SlurmNames string `yaml:"slurmNames"`
	// SlurmVersion is the release that loads the files, such as "26.05".
	SlurmVersion string `yaml:"slurmVersion"`
	// ResourceSlices takes the GPUs of nodes without a report from what NVIDIA's DRA
	// driver lists, where the cluster has that API.
	ResourceSlices bool `yaml:"resourceSlices"`
	// Format is "conf" (topology.conf) or "yaml" (topology.yaml, 25.05 and newer).
	Format string `yaml:"format"`
	// Topology is "block", "tree", or "auto": blocks where there are NVLink
	// domains, else the tree of network tiers.
	Topology string `yaml:"topology"`
	// DefaultTopology is the topology of partitions that name none: "nvl", "leaf",
	// "fabric" or "flat"; empty for the first there is. FlatTopology adds flat beside
	// the others. Both need topology.yaml.
	DefaultTopology string `yaml:"defaultTopology"`
	FlatTopology    bool   `yaml:"flatTopology"`
	// BlocksBy is what makes a block: "nvlink", the NVLink domain, or "leaf", the
	// nearest switch.
	BlocksBy string `yaml:"blocksBy"`
	// ParentBlocks is how many blocks a domain above them takes, such as a scalable
	// unit of racks, whose blocks stay together: a power of two; 0 for none.
	ParentBlocks int `yaml:"parentBlocks"`
	// Unplaced gives nodes that fit nowhere a place of their own.
	Unplaced Unplaced `yaml:"unplaced"`
	// DomainLabels are node labels that name the NVLink domain where
	// nvidia.com/gpu.clique does not, in their order of precedence; "auto" stands
	// for all that are known.
	DomainLabels []string `yaml:"domainLabels"`
	// TierLabels are node labels that name the switches above a node, nearest
	// first; "auto" alone reads those of every source that is known and follows
	// one of them.
	TierLabels    []string `yaml:"tierLabels"`
	BaseBlockSize int      `yaml:"baseBlockSize"`
	BlockSizes    []int    `yaml:"blockSizes"`
	MinBlockNodes int      `yaml:"minBlockNodes"`
	ForgetBlocks  []string `yaml:"forgetBlocks"`
	// Gres says how gres.conf lists GPUs.
	Gres Gres `yaml:"gres"`
	// SlurmConf adds slurm-nodes.conf, a fragment of slurm.conf for nodes that are
	// listed in it, and Cores to gres.conf unless Gres.Cores says no.
	SlurmConf bool `yaml:"slurmConf"`
	// Annotate writes topology.slinky.slurm.net/spec on Nodes; default true
	// where the release takes it.
	Annotate *bool `yaml:"annotate"`
	// Settle is how long facts must be quiet before they are published, and
	// SettleMax, at least as long, how long a restless cluster can put that off.
	Settle    Duration `yaml:"settle"`
	SettleMax Duration `yaml:"settleMax"`
	// FirstWait is how long the first publication waits at most: for nodes with
	// GPUs whose NVLink domain is not known yet and, unless BaseBlockSize is set,
	// for nodes to be added no more for a minute.
	FirstWait Duration `yaml:"firstWait"`
	// GoneAfter is how long a node stays in the files when its Node object, or
	// its report without Kubernetes, is gone.
	GoneAfter Duration `yaml:"goneAfter"`
	// AnnotateAfter is the time between the files and the Node annotations, in
	// which slurmctld loads the files.
	AnnotateAfter Duration `yaml:"annotateAfter"`
	// MaxChange is the share of published nodes that may move or leave in one
	// step; more waits for approval. 1 turns that off, with 0 only a single node
	// goes unasked.
	MaxChange *float64 `yaml:"maxChange"`

	release   slurmconf.Release
	selector  labels.Selector
	slurmName func(*Node) string
	names     *slinkyCluster // whose pods say the Slurm names, nil where none do
	workers   *slinkyCluster // whose pods choose the nodes, nil where none do
}

// Selection chooses nodes. The zero value takes all.
type Selection struct {
	// Selector is a Kubernetes label selector, such as "slurm.example.com/cluster=a".
	Selector string `yaml:"selector"`
	// Slinky is the CONTROLLER, or NAMESPACE/CONTROLLER, of whose worker pods one
	// must run on a node.
	Slinky string `yaml:"slinky"`
}

// Unplaced says of the blocks and of the tree which of the nodes that fit nowhere
// get a block and a leaf switch of their own: "none", "gpus" for those that have
// GPUs, or "all".
type Unplaced struct {
	Block  string `yaml:"block"`
	Switch string `yaml:"switch"`
}

// unplaced has the values of Unplaced.
var unplaced = map[string]topology.Unplaced{"none": topology.UnplacedNone, "gpus": topology.UnplacedGPUs, "all": topology.UnplacedAll}

// Gres is what a site can choose of gres.conf.
type Gres struct {
	// Naming says how a product becomes a Type: "model", "full" or "short".
	Naming string `yaml:"naming"`
	// Types are the types of products that Naming is not to name.
	Types map[string]string `yaml:"types"`
	// Cores writes the cores of each GPU's socket. slurm.conf must have the
	// sockets and cores that the nodes have. The default is Publication.SlurmConf.
	Cores *bool `yaml:"cores"`
	// AutoDetect is "" for listed GPUs, and detected ones where a node has no
	// report; "off" for listed ones only; or how all nodes detect them: "nvidia",
	// "nvml" or "full".
	AutoDetect string `yaml:"autoDetect"`
}

// Duration is a time.Duration that YAML holds as text such as "30s". Its zero
// value means the default; 0s, once read, means 0s.
type Duration struct {
	time.Duration
	read bool
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %q: want a number and a unit, such as 30s, 5m or 1h", n.Line, n.Value)}}
	}
	*d = Duration{v, true}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// DefaultPublication is what a field means that a site leaves out.
func DefaultPublication() Publication {
	annotate, maxChange := true, 0.2
	minute := func(n int) Duration { return Duration{Duration: time.Duration(n) * time.Minute} }
	return Publication{
		Name: "default", Namespace: "slurm", ConfigMap: "quoin-slurm", SlurmNames: "short", SlurmVersion: "26.05",
		Format: "yaml", Topology: "auto", BlocksBy: "nvlink", Unplaced: Unplaced{"none", "none"}, MaxChange: &maxChange, Gres: Gres{Naming: string(slurmconf.NamingModel)}, MinBlockNodes: 2, Annotate: &annotate,
		DomainLabels: []string{nodelabels.Auto}, TierLabels: []string{nodelabels.Auto},
		Settle: Duration{Duration: 10 * time.Second}, SettleMax: minute(1), FirstWait: minute(5), GoneAfter: minute(10), AnnotateAfter: minute(2),
	}
}

// complete fills in defaults.
func (p *Publication) complete() {
	d := DefaultPublication()
	if p.Nodes.Slinky != "" {
		d.SlurmNames = "slinky:" + p.Nodes.Slinky
	}
	if p.BlocksBy == "leaf" {
		d.MinBlockNodes = 1
	}
	d.SettleMax.Duration = max(d.SettleMax.Duration, p.Settle.Duration)
	for _, f := range []struct{ have, def *string }{
		{&p.Name, &d.Name}, {&p.Namespace, &d.Namespace}, {&p.ConfigMap, &d.ConfigMap}, {&p.SlurmNames, &d.SlurmNames},
		{&p.SlurmVersion, &d.SlurmVersion}, {&p.Format, &d.Format}, {&p.Topology, &d.Topology}, {&p.BlocksBy, &d.BlocksBy}, {&p.Unplaced.Block, &d.Unplaced.Block}, {&p.Unplaced.Switch, &d.Unplaced.Switch}, {&p.Gres.Naming, &d.Gres.Naming},
	} {
		if *f.have == "" {
			*f.have = *f.def
		}
	}
	for _, f := range []struct{ have, def *Duration }{
		{&p.Settle, &d.Settle}, {&p.SettleMax, &d.SettleMax}, {&p.FirstWait, &d.FirstWait}, {&p.GoneAfter, &d.GoneAfter}, {&p.AnnotateAfter, &d.AnnotateAfter},
	} {
		if f.have.Duration == 0 && !f.have.read {
			*f.have = *f.def
		}
	}
	p.MinBlockNodes = cmp.Or(p.MinBlockNodes, d.MinBlockNodes)
	p.MaxChange = cmp.Or(p.MaxChange, d.MaxChange)
	p.Annotate = cmp.Or(p.Annotate, d.Annotate)
	if p.Gres.Cores == nil {
		cores := p.SlurmConf
		p.Gres.Cores = &cores
	}
	if p.DomainLabels == nil {
		p.DomainLabels = d.DomainLabels
	}
	if p.TierLabels == nil {
		p.TierLabels = d.TierLabels
	}
}

// FieldError is a value that a publication cannot have.
type FieldError struct {
	Index   int // of the publication
	Name    string
	Key     string // such as nodes.selector
	Message string // the value and what is allowed
}

// Error names the publication, the key, the value and what is allowed.
func (e *FieldError) Error() string {
	return fmt.Sprintf("publication %q: %s: %s", e.Name, e.Key, e.Message)
}

const wantedKey = "letters, digits, '-', '_' and '.', a letter or digit at both ends, 63 at most, after a DNS name and a '/' if one belongs to it"

// check says what is wrong with a completed publication, and what is allowed.
func (p *Publication) check() []*FieldError {
	var wrong []*FieldError
	fail := func(key, message string) {
		wrong = append(wrong, &FieldError{Name: p.Name, Key: key, Message: message})
	}
	bad := func(key string, value any, want string) {
		fail(key, fmt.Sprintf("%q: want %s", fmt.Sprint(value), want))
	}
	var err error
	if p.release, err = slurmconf.ParseRelease(p.SlurmVersion); err != nil {
		fail("slurmVersion", err.Error())
	} else if p.Format == "yaml" && !p.release.YAML() {
		bad("format", p.Format, "conf with Slurm "+p.SlurmVersion+": topology.yaml needs 25.05 or newer")
	}
	if p.Format != "conf" && p.Format != "yaml" {
		bad("format", p.Format, "conf or yaml")
	}
	if p.selector, err = labels.Parse(p.Nodes.Selector); err != nil {
		bad("nodes.selector", p.Nodes.Selector, "a label selector such as key=value: "+err.Error())
	}
	if len(validation.IsDNS1123Label(p.Namespace)) > 0 {
		bad("namespace", p.Namespace, "up to 63 lower-case letters, digits and dashes, no dash at an end")
	}
	if len(validation.IsDNS1123Subdomain(p.ConfigMap)) > 0 {
		bad("configMap", p.ConfigMap, "lower-case letters, digits, dashes and dots, a letter or digit at the ends and beside dots")
	}
	if p.Topology != "auto" && p.Topology != "block" && p.Topology != "tree" {
		bad("topology", p.Topology, "auto, block or tree")
	}
	p.checkPlaces(fail, bad)
	p.checkSlinky(bad)
	p.slurmName = slurmNamer(p.SlurmNames)
	if isPattern(p.SlurmNames) {
		if p.slurmName, err = patternNamer(p.SlurmNames); err != nil {
			fail("slurmNames", err.Error())
		}
	}
	_, key, of := strings.Cut(p.SlurmNames, ":")
	switch {
	case p.bySlinky(), isPattern(p.SlurmNames):
	case p.slurmName == nil:
		bad("slurmNames", p.SlurmNames, "short, full, label:KEY, annotation:KEY, s/REGEXP/REPLACEMENT/, slinky, slinky:CONTROLLER or slinky:NAMESPACE/CONTROLLER")
	case of && len(validation.IsQualifiedName(strings.ToLower(key))) > 0:
		bad("slurmNames", p.SlurmNames, "a key after the colon that is "+wantedKey)
	}
	for key, of := range map[string][]string{"domainLabels": p.DomainLabels, "tierLabels": p.TierLabels} {
		for _, label := range of {
			if len(validation.IsQualifiedName(label)) > 0 {
				bad(key, label, wantedKey)
			}
		}
	}
	p.checkGres(fail, bad)
	if len(p.TierLabels) > 1 && slices.Contains(p.TierLabels, nodelabels.Auto) {
		bad("tierLabels", nodelabels.Auto, "it alone, or the keys of one source, nearest first")
	}
	if p.SettleMax.Duration < p.Settle.Duration {
		bad("settleMax", p.SettleMax, "settle, which is "+p.Settle.String()+", or more")
	}
	if *p.MaxChange < 0 || *p.MaxChange > 1 || math.IsNaN(*p.MaxChange) {
		bad("maxChange", *p.MaxChange, "a share of 0 to 1")
	}
	if p.MinBlockNodes < 1 {
		bad("minBlockNodes", p.MinBlockNodes, "1 or more")
	}
	if p.BaseBlockSize < 0 || p.BaseBlockSize > topology.MaxBlockSize {
		bad("baseBlockSize", p.BaseBlockSize, fmt.Sprintf("1 to %d, or 0 to choose it from the domains", topology.MaxBlockSize))
	} else if err := topology.CheckBlockSizes(p.BaseBlockSize, p.BlockSizes); err != nil {
		fail("blockSizes", err.Error())
	}
	return wrong
}

// checkPlaces checks what says where nodes are put.
func (p *Publication) checkPlaces(fail func(key, message string), bad func(key string, value any, want string)) {
	if p.BlocksBy != "nvlink" && p.BlocksBy != "leaf" {
		bad("blocksBy", p.BlocksBy, "nvlink or leaf")
	}
	for key, value := range map[string]string{"unplaced.block": p.Unplaced.Block, "unplaced.switch": p.Unplaced.Switch} {
		if _, ok := unplaced[value]; !ok {
			bad(key, value, "none, gpus or all")
		}
	}
	if err := topology.CheckParentBlocks(p.ParentBlocks); err != nil {
		fail("parentBlocks", err.Error())
	} else if p.ParentBlocks > 0 && p.release != 0 && !p.release.Placeholders() {
		bad("parentBlocks", p.ParentBlocks, "0 with Slurm "+p.SlurmVersion+": places that are kept free need 25.05 or newer")
	}
	p.checkDefaultTopology(bad)
}

func (p *Publication) checkDefaultTopology(bad func(key string, value any, want string)) {
	blocks := slurmconf.NamesOf(p.BlocksBy == "leaf", true).Blocks
	may := []string{"", blocks, slurmconf.FabricTopology, slurmconf.FlatTopology}
	switch slurmconf.Kind(p.Topology) {
	case slurmconf.KindBlock:
		may = slices.Delete(may, 2, 3)
	case slurmconf.KindTree:
		may = slices.Delete(may, 1, 2)
	}
	switch {
	case p.DefaultTopology != "" && p.Format != "yaml":
		bad("defaultTopology", p.DefaultTopology, "none with format conf: topology.conf has one topology")
	case !slices.Contains(may, p.DefaultTopology):
		bad("defaultTopology", p.DefaultTopology, strings.Join(may[1:], ", ")+", or none for the first there is")
	case p.FlatTopology && p.Format != "yaml":
		bad("flatTopology", p.FlatTopology, "false with format conf: topology.conf has one topology")
	}
}

func (p *Publication) checkGres(fail func(key, message string), bad func(key string, value any, want string)) {
	switch slurmconf.GresNaming(p.Gres.Naming) {
	case slurmconf.NamingModel, slurmconf.NamingFull, slurmconf.NamingShort:
	default:
		bad("gres.naming", p.Gres.Naming, "model, full or short")
	}
	for _, product := range slices.Sorted(maps.Keys(p.Gres.Types)) {
		if err := slurmconf.CheckGresType(p.Gres.Types[product]); err != nil {
			fail("gres.types", fmt.Sprintf("%q: %v", product, err))
		}
	}
	switch p.Gres.AutoDetect {
	case "", slurmconf.AutoDetectOff, slurmconf.AutoDetectNvidia, slurmconf.AutoDetectNVML:
	case slurmconf.AutoDetectFull:
		if p.release != 0 && !p.release.AutoDetectFull() {
			bad("gres.autoDetect", p.Gres.AutoDetect, "off, nvidia or nvml with Slurm "+p.SlurmVersion+": full needs 26.05 or newer")
		}
	default:
		bad("gres.autoDetect", p.Gres.AutoDetect, "off, nvidia, nvml, full, or nothing to list the GPUs of nodes with a report")
	}
}

// gres is how gres.conf is made.
func (p *Publication) gres() slurmconf.GresOptions {
	return slurmconf.GresOptions{Naming: slurmconf.GresNaming(p.Gres.Naming), Types: p.Gres.Types, Cores: *p.Gres.Cores, AutoDetect: p.Gres.AutoDetect}
}

// policy is what the plan is made by.
func (p *Publication) policy() topology.Policy {
	return topology.Policy{ShortBlocks: p.release.ShortBlocks(), BaseBlockSize: p.BaseBlockSize, BlockSizes: p.BlockSizes,
		MinBlockNodes: p.MinBlockNodes, Forget: p.ForgetBlocks, Tiers: p.tiers(), ByLeaf: p.BlocksBy == "leaf", ParentBlocks: p.ParentBlocks,
		OwnBlock: unplaced[p.Unplaced.Block], OwnSwitch: unplaced[p.Unplaced.Switch]}
}

// choice is what is written of the plan.
func (p *Publication) choice() slurmconf.Choice {
	return slurmconf.Choice{Kind: slurmconf.Kind(p.Topology), YAML: p.Format == "yaml", Default: p.DefaultTopology, Flat: p.FlatTopology}
}

// tiers is how many tiers of switches the site has, 0 where its labels are not
// configured.
func (p *Publication) tiers() int {
	if slices.Contains(p.TierLabels, nodelabels.Auto) {
		return 0
	}
	return len(p.TierLabels)
}

// labelKeys name the labels that say where a node is.
func (p *Publication) labelKeys() nodelabels.Keys {
	return nodelabels.Keys{Domains: p.DomainLabels, Tiers: p.TierLabels}
}

func (p *Publication) key() string { return p.Namespace + "/" + p.ConfigMap }

// Complete fills in the defaults of all publications and checks them together.
// Its error joins one *FieldError for each value that cannot be.
func Complete(pubs []Publication) ([]Publication, error) {
	if len(pubs) == 0 {
		pubs = []Publication{DefaultPublication()}
	}
	var wrong []error
	names, places := map[string]bool{}, map[string]string{}
	for i := range pubs {
		p := &pubs[i]
		p.complete()
		found := p.check()
		if names[p.Name] {
			found = append(found, &FieldError{Name: p.Name, Key: "name", Message: "also another publication's: give each a name of its own"})
		}
		if other, taken := places[p.key()]; taken {
			found = append(found, &FieldError{Name: p.Name, Key: "configMap", Message: fmt.Sprintf("%s also belongs to publication %q: give each one of its own", p.key(), other)})
		}
		names[p.Name], places[p.key()] = true, p.Name
		for _, e := range found {
			e.Index = i
			wrong = append(wrong, e)
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return pubs, nil
}

// slurmNamer returns the function that names a node in Slurm, nil where none is
// called so.
func slurmNamer(how string) func(*Node) string {
	kind, key, _ := strings.Cut(how, ":")
	switch {
	case how == "short":
		return func(n *Node) string { s, _, _ := strings.Cut(n.Name, "."); return s }
	case how == "full":
		return func(n *Node) string { return n.Name }
	case kind == "label" && key != "":
		return func(n *Node) string { return n.Labels[key] }
	case kind == "annotation" && key != "":
		return func(n *Node) string { return n.Annotations[key] }
	}
	return nil
}
