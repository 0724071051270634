package placement

import (
	"fmt"
	"slices"
)

// BlockOverfull is the kind of a decision: nodes would join a published block that has no room for them.
// It is also the reason of the nodes that stay away meanwhile.
const BlockOverfull = "BlockOverfull"

// Overfull is a published block that a plan makes larger than it can be, and the nodes that do that.
type Overfull struct {
	Block string
	// Has is how many nodes are there without those that join, and Most how many there can be. Why says
	// how that is known.
	Has, Most int
	Why       string
	// Joins are the nodes that come from other blocks, or from none, by Slurm name.
	Joins []string
}

// Decision returns what would be decided. It names no nodes, but their number: more nodes are another
// decision.
func (o *Overfull) Decision() Decision {
	return Decision{Kind: BlockOverfull, Subject: o.Block, From: fmt.Sprintf("%d nodes", o.Has), To: fmt.Sprintf("%d nodes", o.Has+len(o.Joins))}
}

// String says for people what is too much.
func (o *Overfull) String() string {
	return fmt.Sprintf("%s would join the %d nodes of block %s, and %s", someNodes(o.Joins), o.Has, o.Block, o.Why)
}

// holdOverfull finds the blocks that would have too many nodes with those that join. While people have
// not approved that, the nodes stay where they are. The block's own nodes stay in any case.
func holdOverfull(ds []*domain, nodes []*node, old *published, policy *Policy) (all []Overfull, found problems) {
	for more := !policy.ByLeaf; more; { // a node that stays may leave no room for another
		all, more = nil, false
		staying := make(map[*oldBlock]int)
		for _, n := range nodes {
			if n.keep && n.old != nil {
				staying[n.old]++
			}
		}
		for _, d := range ds {
			o, joins := d.overfull(staying[d.old], policy)
			if o == nil {
				continue
			}
			held := policy.keeps(BlockOverfull, o.Block)
			if held == nil {
				all = append(all, *o)
				continue
			}
			more = true
			for _, n := range joins {
				n.stay(BlockOverfull, fmt.Sprintf("it names %s, but %s; it stays until somebody approves the change %s", d.title(), o, held.Digest()))
				found.add(n.Name, BlockOverfull, n.message)
			}
		}
	}
	return all, found
}

// overfull returns the nodes of a domain that join its published block beyond what the block can have. It returns
// nil if there are none. staying is how many nodes stay in the block whatever they say.
func (d *domain) overfull(staying int, policy *Policy) (o *Overfull, joins []*node) {
	if d.old == nil {
		return nil, nil
	}
	var fresh []*node
	has := staying
	for _, n := range d.nodes {
		switch {
		case n.keep:
		case n.old == nil:
			fresh = append(fresh, n)
		case n.old == d.old || !d.clique.IsZero() && n.old.Clique == d.clique:
			has++
		default:
			joins = append(joins, n)
		}
	}
	if len(joins)+len(fresh) == 0 {
		return nil, nil
	}
	most, why, known := d.mostNodes(policy)
	switch {
	case !known || has+len(joins)+len(fresh) <= most:
		return nil, nil
	case has+len(fresh) > most:
		joins = slices.SortedFunc(slices.Values(slices.Concat(joins, fresh)), compareNodes)
	default:
		has += len(fresh)
	}
	o = &Overfull{Block: d.old.Name, Has: has, Most: most, Why: why}
	for _, n := range joins {
		o.Joins = append(o.Joins, n.SlurmName)
	}
	return o, joins
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
