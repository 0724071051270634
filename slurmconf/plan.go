package slurmconf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// The names of topologies in a topology.yaml made from a plan. topology.conf's
// only one is called default by Slurm.
const (
	NVLinkTopology = "nvl"
	FabricTopology = "fabric"
	confTopology   = "default"
)

// ErrEmptyPlan is returned for a plan that gives no file that slurmctld could
// start with.
var ErrEmptyPlan = errors.New("no NVLink domain and no switch is known: there is nothing to write")

// Kind chooses what is written of a plan.
type Kind string

// KindAuto writes blocks, and in topology.yaml the tree beside them; the tree
// alone where there is no block.
const (
	KindAuto  Kind = "auto"
	KindBlock Kind = "block"
	KindTree  Kind = "tree"
)

// FromPlan returns the topologies of a plan, the default first: one for
// topology.conf, every one there is for topology.yaml.
func FromPlan(plan *topology.Plan, kind Kind, yaml bool) ([]Topology, error) {
	var out []Topology
	if len(plan.Blocks) > 0 && kind != KindTree {
		out = append(out, blocksOf(plan))
	}
	if len(plan.Switches) > 0 && kind != KindBlock {
		out = append(out, treeOf(plan))
	}
	if len(out) == 0 {
		switch kind {
		case KindBlock:
			return nil, fmt.Errorf("%w of topology block", ErrEmptyPlan)
		case KindTree:
			return nil, fmt.Errorf("%w of topology tree", ErrEmptyPlan)
		}
		return nil, ErrEmptyPlan
	}
	out[0].Default = true
	if !yaml {
		out = out[:1]
		out[0].Name = confTopology
	}
	return out, nil
}

func blocksOf(plan *topology.Plan) Topology {
	b := &BlockTopology{Sizes: plan.BlockSizes, Blocks: make([]Block, len(plan.Blocks))}
	for i := range plan.Blocks {
		b.Blocks[i] = Block{Name: plan.Blocks[i].Name, Nodes: CompressHostlist(plan.Blocks[i].Nodes)}
	}
	return Topology{Name: NVLinkTopology, Block: b}
}

func treeOf(plan *topology.Plan) Topology {
	t := &TreeTopology{Switches: make([]Switch, len(plan.Switches))}
	for i := range plan.Switches {
		s := &plan.Switches[i]
		t.Switches[i] = Switch{Name: s.Name, Nodes: CompressHostlist(s.Nodes), Children: CompressHostlist(s.Children)}
	}
	return Topology{Name: FabricTopology, Tree: t}
}

// Specs returns for every node that the topologies hold its Topology= string,
// such as "nvl:nvl-8a61c302-1,fabric:leaf-7". A node without a place is absent.
func Specs(plan *topology.Plan, topologies []Topology) map[string]string {
	var blocks, tree, yaml bool
	for _, t := range topologies {
		blocks, tree, yaml = blocks || t.Block != nil, tree || t.Tree != nil, yaml || t.Name != confTopology
	}
	specs := make(map[string]string, len(plan.Placements))
	var spec, block, leaf string
	for i := range plan.Placements {
		pl := &plan.Placements[i]
		if spec == "" || pl.Block != block || pl.Switch != leaf { // not as the node before
			block, leaf = pl.Block, pl.Switch
			inBlock, at := block, leaf
			if !blocks {
				inBlock = ""
			}
			if !tree {
				at = ""
			}
			spec = Spec(inBlock, at, yaml)
		}
		if spec != "" {
			specs[pl.SlurmName] = spec
		}
	}
	return specs
}

// Spec returns the Topology= string of a node that a topology.yaml, or
// topology.conf, has in a block and at a leaf switch; a place that it has not is
// empty.
func Spec(block, leaf string, yaml bool) string {
	switch {
	case !yaml && block+leaf != "":
		return confTopology + ":" + block + leaf // one of them: it holds one topology
	case block != "" && leaf != "":
		return NVLinkTopology + ":" + block + "," + FabricTopology + ":" + leaf
	case block != "":
		return NVLinkTopology + ":" + block
	case leaf != "":
		return FabricTopology + ":" + leaf
	}
	return ""
}

// Previous reads a topology file, conf or yaml by its name's ending, into what
// a new plan carries on.
func Previous(name string, data []byte) (*topology.Previous, error) {
	var topologies []Topology
	var err error
	if strings.HasSuffix(name, ".yaml") {
		topologies, err = ParseYAML(name, data)
	} else {
		var t Topology
		t, err = ParseConf(name, data)
		topologies = []Topology{t}
	}
	if err != nil {
		return nil, err
	}
	prev := &topology.Previous{}
	for _, t := range topologies {
		if err := addPrevious(prev, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return prev, nil
}

func addPrevious(prev *topology.Previous, t *Topology) error {
	if t.Block != nil && prev.Blocks == nil {
		if len(t.Block.Sizes) > 0 {
			prev.BaseBlockSize = t.Block.Sizes[0]
		}
		prev.Blocks = make([]topology.Block, 0, len(t.Block.Blocks))
		for _, b := range t.Block.Blocks {
			nodes, err := ExpandHostlist(b.Nodes)
			if err != nil {
				return fmt.Errorf("block %s: %w", b.Name, err)
			}
			prev.Blocks = append(prev.Blocks, topology.Block{Name: b.Name, Nodes: nodes})
		}
	}
	if t.Tree != nil && prev.Switches == nil {
		for _, s := range t.Tree.Switches {
			nodes, err := ExpandHostlist(s.Nodes)
			if err != nil {
				return fmt.Errorf("switch %s: %w", s.Name, err)
			}
			children, err := ExpandHostlist(s.Children)
			if err != nil {
				return fmt.Errorf("switch %s: %w", s.Name, err)
			}
			prev.Switches = append(prev.Switches, topology.Switch{Name: s.Name, Nodes: nodes, Children: children})
		}
	}
	return nil
}
