package placement

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// carryOn returns the blocks of the plan: one for each domain, and behind them the published blocks that no domain
// takes. Nodes that stay are in their published block. New blocks that are too small are left out. A further block
// of a domain that has another one loses its nodes to that block, and leaves the plan when it is empty.
func carryOn(ds []*domain, nodes []*node, old *published, policy *Policy) (all []*domain) {
	for _, d := range ds {
		before := len(d.nodes)
		d.nodes = slices.DeleteFunc(d.nodes, func(n *node) bool { return n.source == fromPrevious })
		d.size -= before - len(d.nodes)
	}
	for _, n := range nodes {
		if n.old != nil && n.source == fromPrevious {
			n.old.staying = append(n.old.staying, n)
		}
	}
	twins := findTwins(ds, old)
	for _, b := range old.blocks {
		if first := twins[b]; first != nil && !b.Clique.IsZero() {
			first.old.staying, b.staying = slices.Concat(first.old.staying, b.staying), nil
		}
	}
	all = slices.Clip(ds)
	for _, b := range old.blocks {
		twin, kept := twins[b] != nil, len(b.staying) > 0
		if b.domain == nil && !b.isSpare() {
			leaves := slices.Contains(policy.Forget, b.Name) && !b.votes.silent() || twin
			all = append(all, &domain{twin: twin && !kept, leaves: leaves && !b.inUse && !kept})
			all[len(all)-1].take(b)
		}
		if d := b.domain; d != nil && kept {
			d.nodes = slices.SortedFunc(slices.Values(slices.Concat(d.nodes, b.staying)), compareNodes)
		}
	}
	for _, d := range all {
		if d.size = max(d.size, len(d.nodes)); d.old != nil && !d.old.follows {
			d.size = max(d.size, d.old.Size)
		}
		for _, n := range d.nodes {
			n.block = d
		}
	}
	nameBlocks(all)
	return leaveOutSmall(all, policy)
}

// findTwins returns the published blocks that no domain takes and that are the same domain as another block, with
// that domain.
func findTwins(ds []*domain, old *published) map[*oldBlock]*domain {
	byName, byClique := make(map[string]*domain), make(map[topology.Clique]*domain)
	for _, d := range ds {
		if d.old == nil {
			continue
		}
		if !d.clique.IsZero() {
			byClique[d.clique] = d
		}
		for _, name := range slices.Concat(d.names[:], d.aliases[:]) {
			byName[name] = d
		}
	}
	twins := make(map[*oldBlock]*domain)
	for _, b := range old.blocks {
		d := byClique[b.Clique]
		if b.Clique.IsZero() {
			d = byName[b.Name]
		}
		if d != nil && b.domain == nil {
			twins[b] = d
		}
	}
	return twins
}

// nameBlocks names every block: published names stay, and a new block gets the
// shortest of its names that no other block could have.
func nameBlocks(ds []*domain) {
	uses := make(map[string]int, len(ds))
	for _, d := range ds {
		if d.old != nil {
			d.name = d.old.Name
			uses[d.name]++
			continue
		}
		for _, name := range d.names {
			uses[name]++
		}
	}
	for _, d := range ds {
		if d.old != nil {
			continue
		}
		d.name = d.names[len(d.names)-1]
		if at := slices.IndexFunc(d.names[:], func(name string) bool { return uses[name] == 1 }); at >= 0 {
			d.name = d.names[at]
		}
	}
}

// leaveOutSmall leaves out new blocks that have too few nodes. A machine whose
// NVLink ends inside may be a domain of its own, and no further node would make a block of it.
func leaveOutSmall(ds []*domain, policy *Policy) (kept []*domain) {
	for _, d := range ds {
		switch {
		case d.old != nil || d.size >= policy.minBlockNodes() && len(d.nodes) > 0:
			kept = append(kept, d)
		case d.size == 1 && len(d.nodes) == 1 && !policy.ByLeaf && d.nodes[0].Fabric.IMEX == topology.IMEXNone:
			leaveOut(d.nodes, ReasonNoDomain, d.nodes[0].endsInside()+": its NVLink domain is this node alone")
		default:
			leaveOut(d.nodes, ReasonSmallDomain, fmt.Sprintf("its %s has %s, and a block needs %d", d.title(), countText(d.size), policy.minBlockNodes()))
		}
	}
	return kept
}

// writtenClique returns the NVLink domain that a block is, as far as NVML's form of it is known.
func (d *domain) writtenClique() topology.Clique {
	switch {
	case d.twin:
		return topology.Clique{}
	case d.clique.IsZero() && d.old != nil:
		return d.old.Clique
	}
	return d.clique
}
