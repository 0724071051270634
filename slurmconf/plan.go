package slurmconf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
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
	// Flat adds the topology that knows no places to topology.yaml. Default may name it.
	Flat bool
}

// FromPlan returns the topologies of a plan as a file has them: one for topology.conf, every
// one there is for topology.yaml, blocks first. Without blocks and switches only a flat
// topology that is chosen remains, because the file would replace a topology.conf of the site's own.
func FromPlan(plan *topology.Plan, c Choice) ([]topology.Topology, error) {
	var out []topology.Topology
	for _, t := range plan.Topologies {
		if t.Kind == topology.KindBlock && c.Kind != KindTree || t.Kind == topology.KindTree && c.Kind != KindBlock {
			t.Default = false
			out = append(out, t)
		}
	}
	flat := c.YAML && (c.Flat || c.Default == topology.FlatTopology)
	if len(out) == 0 && !flat {
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
	if flat {
		out = append(out, topology.Topology{Name: topology.FlatTopology, Kind: topology.KindFlat})
	}
	at := slices.IndexFunc(out, func(t topology.Topology) bool { return t.Name == c.Default })
	if at < 0 {
		name := defaultOf(plan)
		at = max(0, slices.IndexFunc(out, func(t topology.Topology) bool { return t.Name == name }))
	}
	out[at].Default = true
	return out, nil
}

// defaultOf returns the name of a plan's default topology.
func defaultOf(plan *topology.Plan) string {
	for i := range plan.Topologies {
		if plan.Topologies[i].Default {
			return plan.Topologies[i].Name
		}
	}
	return ""
}

// PartitionLines returns the lines of slurm.conf that topologies need beside the default one: a job sees the
// topology of its partition only. Several block topologies need a line each, and so do nodes that are in no block
// and below switches of a topology that is not the default.
func PartitionLines(topologies []topology.Topology) []string {
	nodes, inBlock := map[string][]string{}, map[string]bool{}
	for _, u := range topology.UnitsOf(topologies) {
		for _, n := range u.Nodes {
			nodes[u.Topology] = append(nodes[u.Topology], n)
			inBlock[n] = inBlock[n] || u.Kind == topology.KindBlock
		}
	}
	isBlock := func(t topology.Topology) bool { return t.Kind == topology.KindBlock }
	first := slices.IndexFunc(topologies, isBlock)
	several := first >= 0 && slices.ContainsFunc(topologies[first+1:], isBlock)
	var lines []string
	for i := range topologies {
		t := &topologies[i]
		needs := nodes[t.Name]
		if !isBlock(*t) {
			needs = slices.DeleteFunc(needs, func(n string) bool { return inBlock[n] || t.Default })
		}
		if several && isBlock(*t) || !isBlock(*t) && len(needs) > 0 {
			lines = append(lines, fmt.Sprintf("PartitionName=%s Topology=%[1]s Nodes=%s", t.Name, hostlist.Compress(needs)))
		}
	}
	return lines
}

// TopologyGoes says that a published block topology, which partitions may name, gives way to others, and which
// lines of slurm.conf these need. becomes are all block topologies that there would be.
func TopologyGoes(name, others string, becomes []topology.Topology) string {
	lines := cmp.Or(strings.Join(PartitionLines(becomes), "; "), "Topology="+others)
	several, plan := "", topology.Plan{Topologies: becomes}
	if fabrics := plan.Fabrics(); len(fabrics) > 1 {
		several = fmt.Sprintf("; no switch is known above %s: if there is one, set rootSwitch or label the nodes with it, and their blocks stay in one topology", strings.Join(fabrics, " and "))
	}
	return fmt.Sprintf("block topology %s would give way to others, and slurmctld does not start while a partition names a topology that is not in the file; put lines such as these into slurm.conf when you approve: %s",
		name, lines) + several
}

// Names are the names of a file's topologies.
type Names struct {
	// Blocks is the block topology, or what the names of several begin with. Tree is the tree.
	Blocks, Tree string
}

// SortFirst puts the topologies with these names first.
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

// ReadPlan reads a topology file, conf or yaml by its name's ending, into what a new plan
// carries on.
func ReadPlan(name string, data []byte) (*topology.Plan, error) {
	topologies, err := ParseTopologies(name, data)
	if err != nil {
		return nil, err
	}
	plan := &topology.Plan{Topologies: topologies}
	plan.ByLeaf = plan.NamesLeaves()
	return plan, nil
}
