package slurmconf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology/placement"
	"github.com/quoin-hpc/quoin/topology/placement/tree"
)

// The names of the topologies that FromPlan makes.
const (
	NVLinkTopology = placement.NVLinkTopology // blocks of NVLink domains
	LeafTopology   = placement.LeafTopology   // blocks of leaf switches
	FabricTopology = "fabric"                 // the tree
	FlatTopology   = "flat"                   // no places
	ConfTopology   = "default"                // Slurm's name for the only topology of topology.conf
)

// ErrEmptyPlan is returned for a plan that gives no file that slurmctld could
// start with.
var ErrEmptyPlan = errors.New("there is nothing to write")

// Kind chooses what is written of a plan.
type Kind string

const (
	// KindAuto writes blocks, and in topology.yaml the tree beside them. Without
	// blocks it writes the tree alone.
	KindAuto  Kind = "auto"
	KindBlock Kind = "block"
	KindTree  Kind = "tree"
)

// Choice is what is written of a plan.
type Choice struct {
	Kind Kind
	// YAML writes every topology. Otherwise the first one is written.
	YAML bool
	// Default is the name of the topology of partitions that name none. If it is
	// empty or not there, the plan's block topology is the default one, else the first.
	Default string
	// Flat adds the topology that knows no places. Default may name it.
	Flat bool
}

// FromPlan returns the topologies of a plan: one for topology.conf, every one
// there is for topology.yaml, blocks first.
func FromPlan(plan *placement.Plan, c Choice) ([]Topology, error) {
	var out []Topology
	if len(plan.Blocks) > 0 && c.Kind != KindTree {
		out = append(out, blocksOf(plan)...)
	}
	if len(plan.Switches) > 0 && c.Kind != KindBlock {
		out = append(out, treeOf(plan))
	}
	if len(out) == 0 {
		switch c.Kind {
		case KindBlock:
			return nil, fmt.Errorf("no node is in a block: %w of topology block", ErrEmptyPlan)
		case KindTree:
			return nil, fmt.Errorf("no switch is known: %w of topology tree", ErrEmptyPlan)
		}
		return nil, fmt.Errorf("no NVLink domain and no switch is known: %w", ErrEmptyPlan)
	}
	if !c.YAML {
		out = out[:1]
		out[0].Name, out[0].Default = ConfTopology, true
		return out, nil
	}
	if c.Flat || c.Default == FlatTopology {
		out = append(out, Topology{Name: FlatTopology, Flat: true})
	}
	at := slices.IndexFunc(out, func(t Topology) bool { return t.Name == c.Default })
	if at < 0 {
		at = max(0, slices.IndexFunc(out, func(t Topology) bool { return t.Name == plan.Default }))
	}
	out[at].Default = true
	return out, nil
}

// blocksOf returns the block topologies of a plan.
func blocksOf(plan *placement.Plan) []Topology {
	out := make([]Topology, len(plan.Topologies))
	for i := range plan.Topologies {
		t := &plan.Topologies[i]
		out[i] = Topology{Name: t.Name, Block: &BlockTopology{Sizes: t.BlockSizes}}
		for k := range plan.Blocks {
			if b := &plan.Blocks[k]; b.Topology == t.Name {
				out[i].Block.Blocks = append(out[i].Block.Blocks, Block{Name: b.Name, Nodes: hostlist.Compress(b.Nodes)})
			}
		}
	}
	return out
}

// PartitionLines returns the lines of slurm.conf that block topologies need, if there are
// several: a job sees the blocks of its partition's topology only. A block whose nodes are
// no host list adds none.
func PartitionLines(topologies []Topology) []string {
	var lines []string
	for i := range topologies {
		t := &topologies[i]
		if t.Block == nil {
			continue
		}
		var nodes []string
		for _, b := range t.Block.Blocks {
			if of, err := hostlist.Expand(b.Nodes); err == nil {
				nodes = append(nodes, of...)
			}
		}
		lines = append(lines, fmt.Sprintf("PartitionName=%s Topology=%[1]s Nodes=%s", t.Name, hostlist.Compress(nodes)))
	}
	if len(lines) < 2 {
		return nil
	}
	return lines
}

func treeOf(plan *placement.Plan) Topology {
	t := &TreeTopology{Switches: make([]Switch, len(plan.Switches))}
	for i := range plan.Switches {
		s := &plan.Switches[i]
		t.Switches[i] = Switch{Name: s.Name, Nodes: hostlist.Compress(s.Nodes), Children: hostlist.Compress(s.Children)}
	}
	return Topology{Name: FabricTopology, Tree: t}
}

// Specs returns for every node that the topologies hold its Topology= string,
// such as "nvl:nvl-8a61c302-1,fabric:leaf-7". A node without a place is absent.
func Specs(plan *placement.Plan, topologies []Topology) map[string]string {
	var names Names
	for i := range topologies {
		names.Add(&topologies[i])
	}
	specs := make(map[string]string, len(plan.Placements))
	var spec, block, leaf string
	for i := range plan.Placements {
		pl := &plan.Placements[i]
		if spec == "" || pl.Block != block || pl.Switch != leaf { // not as the node before
			block, leaf = pl.Block, pl.Switch
			spec = names.Spec(block, leaf)
		}
		if spec != "" {
			specs[pl.SlurmName] = spec
		}
	}
	return specs
}

// TopologiesChange says which published block topologies would go that partitions may name,
// and the lines of slurm.conf that the plan needs. It returns "" if none would. prev may
// be nil.
func TopologiesChange(c Choice, prev *placement.Previous, plan *placement.Plan) string {
	lost := plan.LostTopologies(prev)
	if len(lost) == 0 || !c.YAML || c.Kind == KindTree {
		return ""
	}
	several := ""
	if fabrics := plan.Fabrics(); len(fabrics) > 1 {
		several = fmt.Sprintf("; no switch is known above %s: if there is one, label the nodes with it, and their blocks stay in one topology", strings.Join(fabrics, " and "))
	}
	return fmt.Sprintf("block topology %s would give way to others, and slurmctld does not start while a partition names a topology that is not in the file; put lines such as these into slurm.conf when you approve: %s",
		strings.Join(lost, ", "), cmp.Or(strings.Join(PartitionLines(blocksOf(plan)), "; "), "Topology="+plan.Default)) + several
}

// Names are the names of a file's topologies. A name is empty if the file has no such
// topology.
type Names struct {
	// Blocks is the first block topology, Tree the tree.
	Blocks, Tree string
	// of has the topology of every block, if there are several block topologies.
	of map[string]string
}

// Add notes the name of the topology, unless one of its kind came before. Several block
// topologies of one plan are one kind.
func (n *Names) Add(t *Topology) {
	switch {
	case t.Block != nil && n.Blocks == "":
		n.Blocks = t.Name
		fallthrough
	case t.Block != nil && sameFamily(n.Blocks, t.Name):
		if n.of == nil {
			n.of = make(map[string]string)
		}
		for i := range t.Block.Blocks {
			n.of[t.Block.Blocks[i].Name] = t.Name
		}
	case t.Tree != nil && n.Tree == "":
		n.Tree = t.Name
	}
}

// IsZero reports whether no topology was noted.
func (n *Names) IsZero() bool { return n.Blocks == "" && n.Tree == "" }

// SortFirst puts the topologies with these names first. NamesOf gives such names.
func (n *Names) SortFirst(topologies []Topology) {
	wanted := func(t Topology) int {
		if BlockFamily(t.Name) == n.Blocks || t.Name == n.Tree {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(topologies, func(a, b Topology) int { return wanted(a) - wanted(b) })
}

// BlockFamily returns what block topologies of a plan are called by: "nvl" for nvl and
// nvl-18, "leaf" for leaf and leaf-a, and the name itself for any other.
func BlockFamily(name string) string {
	for _, family := range []string{NVLinkTopology, LeafTopology} {
		if strings.HasPrefix(name, family+"-") {
			return family
		}
	}
	return name
}

// sameFamily reports whether two block topologies are of one plan: both are parts of one
// kind. The whole and a part are not, because one of them is on its way out of the file.
func sameFamily(a, b string) bool {
	return a == b || a != BlockFamily(a) && BlockFamily(a) == BlockFamily(b) && b != BlockFamily(b)
}

// NamesOf returns the names that the topologies of a plan have.
func NamesOf(byLeaf, yaml bool) Names {
	switch {
	case !yaml:
		return Names{Blocks: ConfTopology, Tree: ConfTopology}
	case byLeaf:
		return Names{Blocks: LeafTopology, Tree: FabricTopology}
	}
	return Names{Blocks: NVLinkTopology, Tree: FabricTopology}
}

// Spec returns the Topology= string of a node in a block and at a leaf switch. An
// empty block or leaf is no place.
func (n Names) Spec(block, leaf string) string {
	inBlock, atLeaf := "", ""
	if n.Blocks != "" && block != "" {
		inBlock = cmp.Or(n.of[block], n.Blocks) + ":" + block
	}
	if n.Tree != "" && leaf != "" {
		atLeaf = n.Tree + ":" + leaf
	}
	if inBlock != "" && atLeaf != "" {
		return inBlock + "," + atLeaf
	}
	return inBlock + atLeaf
}

// Previous reads a topology file, conf or yaml by its name's ending, into what
// a new plan carries on.
func Previous(name string, data []byte) (*placement.Previous, error) {
	topologies, err := ParseTopologies(name, data)
	if err != nil {
		return nil, err
	}
	return PreviousOf(name, topologies)
}

// PreviousOf returns what a new plan carries on from the topologies of a file: the
// first block topology with the others of its plan, and the first tree. name stands for
// the file in errors.
func PreviousOf(name string, topologies []Topology) (*placement.Previous, error) {
	prev := &placement.Previous{}
	for _, t := range topologies {
		if err := addPrevious(prev, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return prev, nil
}

func addPrevious(prev *placement.Previous, t *Topology) error {
	if t.Block != nil && (prev.Blocks == nil || sameFamily(prev.Topologies[0].Name, t.Name)) {
		if prev.Blocks == nil {
			prev.ByLeaf = BlockFamily(t.Name) == LeafTopology
			prev.Blocks = make([]placement.Block, 0, len(t.Block.Blocks))
		}
		if t.Default {
			prev.Default = t.Name
		}
		if len(t.Block.Sizes) > 0 && (prev.BaseBlockSize == 0 || t.Default) {
			prev.BaseBlockSize = t.Block.Sizes[0]
		}
		name := t.Name
		if name == ConfTopology { // topology.conf does not tell the kind
			name = ""
		}
		prev.Topologies = append(prev.Topologies, placement.Topology{Name: name, BlockSizes: t.Block.Sizes})
		for _, b := range t.Block.Blocks {
			nodes, err := hostlist.Expand(b.Nodes)
			if err != nil {
				return fmt.Errorf("block %s: %w", b.Name, err)
			}
			prev.Blocks = append(prev.Blocks, placement.Block{Name: b.Name, Topology: name, Nodes: nodes})
		}
	}
	if t.Tree != nil && prev.Switches == nil {
		for _, s := range t.Tree.Switches {
			nodes, err := hostlist.Expand(s.Nodes)
			if err != nil {
				return fmt.Errorf("switch %s: %w", s.Name, err)
			}
			children, err := hostlist.Expand(s.Children)
			if err != nil {
				return fmt.Errorf("switch %s: %w", s.Name, err)
			}
			prev.Switches = append(prev.Switches, tree.Switch{Name: s.Name, Nodes: nodes, Children: children})
		}
	}
	return nil
}

// Units returns the blocks and leaf switches that a Topology= string names in the
// topologies of FromPlan, and the names of all its topologies. A path from a root
// stands for its leaf.
func Units(spec string) (units, topologies []string) {
	for part := range strings.SplitSeq(spec, ",") {
		name, unit, ok := strings.Cut(part, ":")
		if !ok {
			continue
		}
		topologies = append(topologies, name)
		switch BlockFamily(name) {
		case NVLinkTopology, LeafTopology, FabricTopology, ConfTopology:
			units = append(units, unit[strings.LastIndexByte(unit, ':')+1:])
		}
	}
	return units, topologies
}
