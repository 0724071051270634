package slurmconf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
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
func FromPlan(plan *placement.Plan, c Choice) ([]topology.Topology, error) {
	var out []topology.Topology
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
		out[0].Name, out[0].Default = topology.ConfTopology, true
		return out, nil
	}
	if c.Flat || c.Default == topology.FlatTopology {
		out = append(out, topology.Topology{Name: topology.FlatTopology, Kind: topology.KindFlat})
	}
	at := slices.IndexFunc(out, func(t topology.Topology) bool { return t.Name == c.Default })
	if at < 0 {
		at = max(0, slices.IndexFunc(out, func(t topology.Topology) bool { return t.Name == plan.Default }))
	}
	out[at].Default = true
	return out, nil
}

// blocksOf returns the block topologies of a plan.
func blocksOf(plan *placement.Plan) []topology.Topology {
	out := make([]topology.Topology, len(plan.Topologies))
	for i := range plan.Topologies {
		t := &plan.Topologies[i]
		out[i] = topology.Topology{Name: t.Name, Kind: topology.KindBlock, Sizes: t.BlockSizes}
		for k := range plan.Blocks {
			if b := &plan.Blocks[k]; b.Topology == t.Name {
				out[i].Blocks = append(out[i].Blocks, topology.Block{Name: b.Name, Nodes: b.Nodes})
			}
		}
	}
	return out
}

// PartitionLines returns the lines of slurm.conf that block topologies need, if there are
// several: a job sees the blocks of its partition's topology only.
func PartitionLines(topologies []topology.Topology) []string {
	var lines []string
	for i := range topologies {
		t := &topologies[i]
		if t.Kind != topology.KindBlock {
			continue
		}
		var nodes []string
		for k := range t.Blocks {
			nodes = append(nodes, t.Blocks[k].Nodes...)
		}
		lines = append(lines, fmt.Sprintf("PartitionName=%s Topology=%[1]s Nodes=%s", t.Name, hostlist.Compress(nodes)))
	}
	if len(lines) < 2 {
		return nil
	}
	return lines
}

func treeOf(plan *placement.Plan) topology.Topology {
	return topology.Topology{Name: topology.FabricTopology, Kind: topology.KindTree, Switches: plan.Switches}
}

// Specs returns for every node that the topologies hold its Topology= string,
// such as "nvl:nvl-8a61c302-1,fabric:leaf-7". A node without a place is absent.
func Specs(plan *placement.Plan, topologies []topology.Topology) map[string]string {
	names := NamesIn(topologies)
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
	// of has the topology of every block.
	of map[string]string
}

// NamesIn returns the names of the topologies that a plan of these topologies is about.
func NamesIn(topologies []topology.Topology) Names {
	var n Names
	for _, t := range (&topology.Plan{Topologies: topologies}).Own() {
		if t.Kind == topology.KindTree {
			n.Tree = t.Name
			continue
		}
		n.Blocks = cmp.Or(n.Blocks, t.Name)
		if n.of == nil {
			n.of = make(map[string]string)
		}
		for i := range t.Blocks {
			n.of[t.Blocks[i].Name] = t.Name
		}
	}
	return n
}

// SortFirst puts the topologies with these names first. NamesOf gives such names.
func (n *Names) SortFirst(topologies []topology.Topology) {
	wanted := func(t topology.Topology) int {
		if topology.BlockFamily(t.Name) == n.Blocks || t.Name == n.Tree {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(topologies, func(a, b topology.Topology) int { return wanted(a) - wanted(b) })
}

// NamesOf returns the names that the topologies of a plan have.
func NamesOf(byLeaf, yaml bool) Names {
	switch {
	case !yaml:
		return Names{Blocks: topology.ConfTopology, Tree: topology.ConfTopology}
	case byLeaf:
		return Names{Blocks: topology.LeafTopology, Tree: topology.FabricTopology}
	}
	return Names{Blocks: topology.NVLinkTopology, Tree: topology.FabricTopology}
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
	return PreviousOf(topologies), nil
}

// PreviousOf returns what a new plan carries on from the topologies of a file.
func PreviousOf(topologies []topology.Topology) *placement.Previous {
	prev := &placement.Previous{}
	for _, t := range (&topology.Plan{Topologies: topologies}).Own() {
		if t.Kind == topology.KindTree {
			prev.Switches = t.Switches
			continue
		}
		if prev.Topologies == nil {
			prev.ByLeaf = topology.BlockFamily(t.Name) == topology.LeafTopology
		}
		if t.Default {
			prev.Default = t.Name
		}
		if len(t.Sizes) > 0 && (prev.BaseBlockSize == 0 || t.Default) {
			prev.BaseBlockSize = t.Sizes[0]
		}
		name := t.Name
		if name == topology.ConfTopology { // topology.conf does not tell the kind
			name = ""
		}
		prev.Topologies = append(prev.Topologies, placement.Topology{Name: name, Fabric: t.Fabric, BlockSizes: t.Sizes})
		for _, b := range t.Blocks {
			prev.Blocks = append(prev.Blocks, placement.Block{Name: b.Name, Topology: name, Nodes: b.Nodes, Size: b.Size})
		}
	}
	return prev
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
		switch topology.BlockFamily(name) {
		case topology.NVLinkTopology, topology.LeafTopology, topology.FabricTopology, topology.ConfTopology:
			units = append(units, unit[strings.LastIndexByte(unit, ':')+1:])
		}
	}
	return units, topologies
}
