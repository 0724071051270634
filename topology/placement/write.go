package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement/names"
	"github.com/quoin-hpc/quoin/topology/placement/tree"
)

// writeBlocks returns the blocks of a topology in their order. before is the number of
// blocks of the topologies before it.
func writeBlocks(s *site, z sizing, order ordering, before int) []Block {
	blocks := make([]Block, 0, len(order))
	for at, i := range order {
		if i == none {
			blocks = append(blocks, Block{Name: names.Spare(before+at, z.has)})
			continue
		}
		from := &z.blocks[i]
		b := Block{Name: from.name, Clique: from.clique, Nodes: make([]string, 0, from.size()), Size: s.most(from)}
		for _, node := range from.nodes {
			b.Nodes = append(b.Nodes, s.facts[node].SlurmName)
		}
		if len(from.gone) > 0 {
			b.Nodes = append(b.Nodes, from.gone...)
			slices.Sort(b.Nodes)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// writePlacements says of every node where it is and why, or why it is nowhere.
func writePlacements(s *site, m matching, z sizing, t tree.Tree) []Placement {
	placements := make([]Placement, len(s.facts))
	for i, f := range s.facts {
		v, from := m.read[i].verdict, m.read[i].source
		if stays, ok := m.stays[i]; ok {
			v, from = stays, unknown
		} else if left, ok := z.leftOut[i]; ok {
			v, from = left, unknown
		}
		placements[i] = Placement{Node: f.Name, SlurmName: f.SlurmName, Switch: t.Leaf(i), Source: from.String(), Reason: v.reason, Message: v.message}
	}
	for b := range z.blocks {
		for _, i := range z.blocks[b].nodes {
			pl := &placements[i]
			pl.Block = z.blocks[b].name
			if m.kept(i) {
				pl.Source, pl.Message = fromPrevious.String(), "stays in its published block: "+pl.Message
			} else {
				pl.Reason, pl.Message = ReasonPlaced, ""
			}
		}
	}
	if len(z.blocks) == 0 { // then the switches are all that is published
		for i := range placements {
			if pl := &placements[i]; pl.Switch != "" {
				pl.Reason, pl.Message = ReasonPlaced, ""
			}
		}
	}
	return placements
}

// placementProblems names the placements that are problems.
func placementProblems(s *site, placements []Placement) problems {
	var found problems
	for i := range placements {
		pl := &placements[i]
		stays := pl.Source == fromPrevious.String()
		switch pl.Reason {
		case ReasonFabricFailed, ReasonTwoCliques, ReasonBelowBase:
		case ReasonNoDomain:
			if !stays || s.facts[i].Report == nil { // a problem of labels is named already
				continue
			}
		case ReasonNoGPUs:
			if !stays {
				continue
			}
		default:
			continue
		}
		found.add(pl.Node, pl.Reason, pl.Message)
	}
	return found
}

// sortProblems returns the problems of all stages in the order of nodes.
func sortProblems(stages ...problems) []topology.Problem {
	all := slices.Concat(stages...)
	slices.SortFunc(all, func(a, b topology.Problem) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
	})
	return all
}
