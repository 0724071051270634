package placement

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// writeBlocks returns the blocks of a topology in their order. before is the number of
// blocks of the topologies before it.
func writeBlocks(s *site, from []block, order ordering, before int) []topology.Block {
	named := func(name string) bool {
		return slices.ContainsFunc(from, func(b block) bool { return b.name == name })
	}
	blocks := make([]topology.Block, 0, len(order))
	for at, i := range order {
		if i == none {
			blocks = append(blocks, topology.Block{Name: topology.SpareBlock(before+at, named)})
			continue
		}
		source := &from[i]
		b := topology.Block{Name: source.name, Nodes: make([]string, 0, len(source.nodes)), Size: s.most(source), Clique: s.cliqueOf(source)}
		for _, node := range source.nodes {
			b.Nodes = append(b.Nodes, s.facts[node].SlurmName)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// writeNodes says of every node why it is where it is, or why it is nowhere.
func writeNodes(s *site, m matching, made madeParts, t tree) []topology.Placement {
	nodes := make([]topology.Placement, len(s.facts))
	for i, f := range s.facts {
		v, from := m.read[i].verdict, m.read[i].source
		if stays, ok := m.stays[i]; ok {
			v, from = stays, unknown
		} else if left, ok := made.leftOut[i]; ok {
			v, from = left, unknown
		}
		nodes[i] = topology.Placement{Node: f.Name, SlurmName: f.SlurmName, NodeUnknown: f.NodeUnknown, Source: from.String(), Reason: v.reason, Message: v.message}
	}
	for b := range made.blocks {
		for _, i := range made.blocks[b].nodes {
			n := &nodes[i]
			if m.kept(i) {
				n.Source, n.Message = fromPrevious.String(), "stays in its published block: "+n.Message
			} else {
				n.Reason, n.Message = ReasonPlaced, ""
			}
		}
	}
	if len(made.blocks) == 0 { // then the switches are all that is published
		for i := range nodes {
			if t.leaves[i] != "" {
				nodes[i].Reason, nodes[i].Message = ReasonPlaced, ""
			}
		}
	}
	return nodes
}

// nodeProblems names the nodes whose place is a problem.
func nodeProblems(s *site, nodes []topology.Placement) problems {
	var found problems
	for i := range nodes {
		pl := &nodes[i]
		stays := pl.Source == fromPrevious.String()
		switch pl.Reason {
		case ReasonHeld:
		case ReasonNoDomain, ReasonNoFacts:
			r := s.facts[i].Report
			if !stays || r == nil || pl.Reason == ReasonNoFacts && len(r.Problems) > 0 { // a problem of labels or of the report is named already
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
func sortProblems(stages ...problems) []topology.Finding {
	all := slices.Concat(stages...)
	slices.SortFunc(all, topology.CompareFindings)
	return all
}
