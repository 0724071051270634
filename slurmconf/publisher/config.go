package publisher

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

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
	// dot), "full", "label:KEY" or "annotation:KEY".
	SlurmNames string `yaml:"slurmNames"`
	// SlurmVersion is the release that loads the files, such as "26.05".
	SlurmVersion string `yaml:"slurmVersion"`
	// Format is "conf" (topology.conf) or "yaml" (topology.yaml, 25.05 and newer).
	Format string `yaml:"format"`
	// Topology is "block", "tree", or "auto": blocks where there are NVLink
	// domains, else the tree of network tiers.
	Topology string `yaml:"topology"`
	// TierLabels are node labels that name the switches above a node, nearest
	// first.
	TierLabels    []string `yaml:"tierLabels"`
	BaseBlockSize int      `yaml:"baseBlockSize"`
	BlockSizes    []int    `yaml:"blockSizes"`
	MinBlockNodes int      `yaml:"minBlockNodes"`
	ForgetBlocks  []string `yaml:"forgetBlocks"`
	// Annotate writes topology.slinky.slurm.net/spec on Nodes; default true
	// where the release takes it.
	Annotate *bool `yaml:"annotate"`
	// Settle is how long facts must be quiet before they are published, and
	// SettleMax how long a restless cluster can put that off.
	Settle    Duration `yaml:"settle"`
	SettleMax Duration `yaml:"settleMax"`
	// FirstWait is how long the first publication waits for nodes with GPUs
	// whose NVLink domain is not known yet.
	FirstWait Duration `yaml:"firstWait"`
	// GoneAfter is how long a node stays in the files when its Node object, or
	// its report without Kubernetes, is gone.
	GoneAfter Duration `yaml:"goneAfter"`
	// AnnotateAfter is the time between the files and the Node annotations, in
	// which slurmctld loads the files.
	AnnotateAfter Duration `yaml:"annotateAfter"`
	// MaxChange is the share of published nodes that may move or leave in one
	// step; more waits for approval. 1 turns that off.
	MaxChange float64 `yaml:"maxChange"`

	release  slurmconf.Release
	selector labels.Selector
}

// Selection chooses nodes. The zero value takes all.
type Selection struct {
	// Selector is a Kubernetes label selector, such as "slurm.example.com/cluster=a".
	Selector string `yaml:"selector"`
}

// Duration is a time.Duration that YAML holds as text such as "30s".
type Duration struct{ time.Duration }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 {
		return fmt.Errorf("duration %q: want a number and a unit, such as 30s, 5m or 1h", text)
	}
	d.Duration = v
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// DefaultPublication is what a field means that a site leaves out.
func DefaultPublication() Publication {
	annotate := true
	return Publication{
		Name: "default", Namespace: "slurm", ConfigMap: "quoin-slurm", SlurmNames: "short", SlurmVersion: "26.05",
		Format: "yaml", Topology: "auto", MaxChange: 0.2, Annotate: &annotate, TierLabels: slices.Clone(nodelabels.DefaultTiers),
		Settle: Duration{10 * time.Second}, SettleMax: Duration{time.Minute}, FirstWait: Duration{5 * time.Minute},
		GoneAfter: Duration{10 * time.Minute}, AnnotateAfter: Duration{2 * time.Minute},
	}
}

var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// complete fills in defaults and checks every field.
func (p *Publication) complete() error {
	d := DefaultPublication()
	for _, f := range []struct{ have, def *string }{
		{&p.Name, &d.Name}, {&p.Namespace, &d.Namespace}, {&p.ConfigMap, &d.ConfigMap}, {&p.SlurmNames, &d.SlurmNames},
		{&p.SlurmVersion, &d.SlurmVersion}, {&p.Format, &d.Format}, {&p.Topology, &d.Topology},
	} {
		if *f.have == "" {
			*f.have = *f.def
		}
	}
	for _, f := range []struct{ have, def *Duration }{
		{&p.Settle, &d.Settle}, {&p.SettleMax, &d.SettleMax}, {&p.FirstWait, &d.FirstWait}, {&p.GoneAfter, &d.GoneAfter}, {&p.AnnotateAfter, &d.AnnotateAfter},
	} {
		if f.have.Duration == 0 {
			*f.have = *f.def
		}
	}
	if p.MaxChange == 0 {
		p.MaxChange = d.MaxChange
	}
	if p.Annotate == nil {
		p.Annotate = d.Annotate
	}
	if p.TierLabels == nil {
		p.TierLabels = d.TierLabels
	}
	return p.check()
}

// check says what is wrong with a completed publication, and what is allowed.
func (p *Publication) check() error {
	var err error
	if p.release, err = slurmconf.ParseRelease(p.SlurmVersion); err != nil {
		return fmt.Errorf("publication %q: slurmVersion: %w", p.Name, err)
	}
	if p.selector, err = labels.Parse(p.Nodes.Selector); err != nil {
		return fmt.Errorf("publication %q: nodes.selector %q: want a label selector such as key=value: %w", p.Name, p.Nodes.Selector, err)
	}
	var wrong []error
	bad := func(key string, value any, want string) {
		wrong = append(wrong, fmt.Errorf("publication %q: %s %q: want %s", p.Name, key, fmt.Sprint(value), want))
	}
	if !dnsName.MatchString(p.Namespace) {
		bad("namespace", p.Namespace, "lower-case letters, digits and dashes")
	}
	if !dnsName.MatchString(p.ConfigMap) {
		bad("configMap", p.ConfigMap, "lower-case letters, digits, dashes and dots")
	}
	if p.Format != "conf" && p.Format != "yaml" {
		bad("format", p.Format, "conf or yaml")
	}
	if p.Format == "yaml" && !p.release.YAML() {
		bad("format", p.Format, "conf with Slurm "+p.SlurmVersion+": topology.yaml needs 25.05 or newer")
	}
	if p.Topology != "auto" && p.Topology != "block" && p.Topology != "tree" {
		bad("topology", p.Topology, "auto, block or tree")
	}
	if _, err := slurmNamer(p.SlurmNames); err != nil {
		bad("slurmNames", p.SlurmNames, "short, full, label:KEY or annotation:KEY")
	}
	if p.MaxChange < 0 || p.MaxChange > 1 {
		bad("maxChange", p.MaxChange, "a share of 0 to 1")
	}
	return errors.Join(wrong...)
}

// policy is what the plan is made by.
func (p *Publication) policy() topology.Policy {
	return topology.Policy{ShortBlocks: p.release.ShortBlocks(), BaseBlockSize: p.BaseBlockSize, BlockSizes: p.BlockSizes,
		MinBlockNodes: p.MinBlockNodes, Forget: p.ForgetBlocks}
}

func (p *Publication) key() string { return p.Namespace + "/" + p.ConfigMap }

// Complete fills in the defaults of all publications and checks them together.
func Complete(pubs []Publication) ([]Publication, error) {
	if len(pubs) == 0 {
		pubs = []Publication{DefaultPublication()}
	}
	names, places := map[string]bool{}, map[string]string{}
	for i := range pubs {
		p := &pubs[i]
		if err := p.complete(); err != nil {
			return nil, err
		}
		if names[p.Name] {
			return nil, fmt.Errorf("two publications are named %q: give each a name of its own", p.Name)
		}
		if other, taken := places[p.key()]; taken {
			return nil, fmt.Errorf("publications %q and %q both write ConfigMap %s: give each one of its own", other, p.Name, p.key())
		}
		names[p.Name], places[p.key()] = true, p.Name
	}
	return pubs, nil
}

// slurmNamer returns the function that names a node in Slurm.
func slurmNamer(how string) (func(*Node) string, error) {
	kind, key, _ := strings.Cut(how, ":")
	switch {
	case how == "short":
		return func(n *Node) string { s, _, _ := strings.Cut(n.Name, "."); return s }, nil
	case how == "full":
		return func(n *Node) string { return n.Name }, nil
	case kind == "label" && key != "":
		return func(n *Node) string { return n.Labels[key] }, nil
	case kind == "annotation" && key != "":
		return func(n *Node) string { return n.Annotations[key] }, nil
	}
	return nil, fmt.Errorf("slurm names %q: want short, full, label:KEY or annotation:KEY", how)
}
