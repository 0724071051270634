package placement

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// overfull is a published block that the plan would make larger than it can be, and the nodes that do that.
type overfull struct {
	block string
	// has counts the nodes that are there before others join, and why says how many there can be.
	has int
	why string
	// joins are the nodes that come from other blocks, or from none.
	joins []*node
}

// choice names no nodes in its decision, but their number: more nodes are another decision.
func (o *overfull) choice() Choice {
	return Choice{Decision: Decision{BlockOverfull, o.block, fmt.Sprintf("%d nodes", o.has), fmt.Sprintf("%d nodes", o.has+len(o.joins))},
		Message: fmt.Sprintf("%s: %s; until it is approved these nodes stay where they are; find out why they name this NVLink domain, and delete the Nodes that are gone for good", o, hostlist.Compress(slurmNames(o.joins)))}
}

// String says for people what is too much.
func (o *overfull) String() string {
	return fmt.Sprintf("%s would join the %d nodes of block %s, and %s", someNodes(slurmNames(o.joins)), o.has, o.block, o.why)
}

// holdOverfull finds the blocks that would have too many nodes if nodes join. While people have not approved
// that, the nodes that join stay where they are. The block's own nodes stay in any case. If there is such a block,
// nodes that leave a block make no room in it, because they may have to stay.
func holdOverfull(ds []*domain, policy *Policy) (found problems) {
	if policy.ByLeaf || !slices.ContainsFunc(ds, func(d *domain) bool { return d.overfull(true, policy) != nil }) {
		return nil
	}
	for _, d := range ds {
		o := d.overfull(false, policy)
		if o == nil {
			continue
		}
		waits := policy.follow(o.choice())
		if waits == nil {
			continue
		}
		for _, n := range o.joins {
			until := "it stays"
			if n.old == nil {
				until = "it is in no block"
			}
			n.stay(BlockOverfull, fmt.Sprintf("it names %s, but %s; %s until somebody approves the change %s", d.title(), o, until, waits.Digest()))
			found.add(n.Name, BlockOverfull, n.message)
		}
	}
	return found
}

// overfull returns what joins the published block of a domain beyond what the block can have, or nil. leave: nodes
// of the block that name another domain make room.
func (d *domain) overfull(leave bool, policy *Policy) *overfull {
	if d.old == nil {
		return nil
	}
	var moved, fresh []*node
	has := 0
	for _, n := range d.old.nodes {
		if n.source == fromPrevious || n.block == d || !leave {
			has++
		}
	}
	for _, n := range d.nodes {
		switch {
		case n.source == fromPrevious || n.old == d.old:
		case n.old == nil:
			fresh = append(fresh, n)
		case !d.clique.IsZero() && n.old.Clique == d.clique:
			has++
		default:
			moved = append(moved, n)
		}
	}
	if len(moved)+len(fresh) == 0 {
		return nil
	}
	most, why, known := d.mostNodes(policy)
	switch {
	case !known || has+len(moved)+len(fresh) <= most:
		return nil
	case has+len(fresh) > most:
		moved = slices.SortedFunc(slices.Values(slices.Concat(moved, fresh)), compareNodes)
	default:
		has += len(fresh)
	}
	return &overfull{block: d.old.Name, has: has, why: why, joins: moved}
}

// mostNodes returns how many nodes the block of a domain can have by the product of most nodes that are there or join,
// and why. It is not known if that product has no bound.
func (d *domain) mostNodes(policy *Policy) (most int, why string, known bool) {
	type kind struct {
		chip          string
		bound, ofNode int
	}
	kinds := make(map[kind]int)
	var usual kind
	count := func(n *node) {
		chip, bound, known := policy.MaxDomainGPUs.Of(n.Product())
		k := kind{chip, bound, n.GPUCount()}
		if !known || k.ofNode == 0 || k.bound < k.ofNode { // such as a node that is gone
			return
		}
		if kinds[k]++; kinds[k] > kinds[usual] {
			usual = k
		}
	}
	for _, n := range d.old.nodes {
		count(n)
	}
	for _, n := range d.nodes {
		if n.old != d.old {
			count(n)
		}
	}
	if usual.ofNode == 0 {
		return 0, "", false
	}
	most = usual.bound / usual.ofNode
	return most, fmt.Sprintf("NVLink joins %d GPUs of %s at most, which are %d nodes", usual.bound, usual.chip, most), true
}
