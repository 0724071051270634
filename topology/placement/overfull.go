package placement

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// BlockOverfull is the kind of a decision: nodes would join a published block that has no room for them.
// It is also the reason of the nodes that stay away meanwhile.
const BlockOverfull = "BlockOverfull"

// findOverfull finds the blocks that would have too many nodes with those that join. While people have
// not approved that, the nodes stay where they are. The block's own nodes stay in any case.
func (s *site) findOverfull(g grouping, c claims, st stays) (found problems) {
	for more := !s.policy.ByLeaf; more; { // a node that stays may leave no room for another
		more = false
		staying := s.countStaying(g, st)
		for at := range g.groups {
			o := s.overfullBy(&g.groups[at], c.blockOf[at], st, staying)
			if o == nil {
				continue
			}
			d := s.policy.follow(o.choice())
			if d == nil {
				continue
			}
			more = true
			for _, i := range o.joins {
				st[i] = verdict{BlockOverfull, fmt.Sprintf("it names %s, but %s; it stays until somebody approves the change %s", g.groups[at].title(), o, d.Digest())}
				found.add(s.facts[i].Name, BlockOverfull, st[i].message)
			}
		}
	}
	return found
}

// overfull is a published block that the plan would make larger than it can be, and the nodes that do that.
type overfull struct {
	block string
	// has is how many nodes are there without those that join, and why says how many there can be.
	has int
	why string
	// joins are the nodes that come from other blocks, or from none, and names are theirs.
	joins []int
	names []string
}

// choice names no nodes in its decision, but their number: more nodes are another decision.
func (o *overfull) choice() Choice {
	return Choice{Decision{BlockOverfull, o.block, fmt.Sprintf("%d nodes", o.has), fmt.Sprintf("%d nodes", o.has+len(o.joins))},
		fmt.Sprintf("%s: %s; until it is approved these nodes stay where they are; find out why they name this NVLink domain, and delete the Nodes that are gone for good", o, hostlist.Compress(o.names))}
}

// String says for people what is too much.
func (o *overfull) String() string {
	return fmt.Sprintf("%s would join the %d nodes of block %s, and %s", someNodes(o.names), o.has, o.block, o.why)
}

// overfullBy returns the nodes of a group that join its published block beyond what the block can have, or nil. staying
// counts, by published block, the nodes that stay there whatever they say.
func (s *site) overfullBy(grp *group, block int, st stays, staying []int) *overfull {
	if block == none {
		return nil
	}
	var moved, fresh []int
	has := staying[block]
	for _, i := range grp.nodes {
		if _, stays := st[i]; stays {
			continue
		}
		switch from := s.block(i); {
		case from == none:
			fresh = append(fresh, i)
		case from == block || !grp.clique.IsZero() && s.prev.blocks[from].Clique == grp.clique:
			has++
		default:
			moved = append(moved, i)
		}
	}
	if len(moved)+len(fresh) == 0 {
		return nil
	}
	most, why, known := s.mostNodes(grp, block)
	switch {
	case !known || has+len(moved)+len(fresh) <= most:
		return nil
	case has+len(fresh) > most:
		moved = slices.Sorted(slices.Values(slices.Concat(moved, fresh)))
	default:
		has += len(fresh)
	}
	o := &overfull{block: s.prev.blocks[block].Name, has: has, why: why, joins: moved}
	for _, i := range moved {
		o.names = append(o.names, s.facts[i].SlurmName)
	}
	return o
}

// countStaying counts, beside the published blocks, their nodes that stay whatever they say.
func (s *site) countStaying(g grouping, st stays) []int {
	counts := make([]int, len(s.prev.blocks))
	for i := range g.read {
		if b := s.block(i); b != none {
			if _, stays := st[i]; stays || g.of[i] == none && g.read[i].keep {
				counts[b]++
			}
		}
	}
	return counts
}

// mostNodes returns how many nodes a published block can have by the product of most nodes that are there or join,
// and why. It is not known if that product has no bound.
func (s *site) mostNodes(grp *group, block int) (most int, why string, known bool) {
	type kind struct {
		chip          string
		bound, ofNode int
	}
	kinds := make(map[kind]int)
	var usual kind
	count := func(i int) {
		f := s.facts[i]
		chip, bound, known := s.policy.MaxDomainGPUs.Of(f.Product())
		k := kind{chip, bound, f.GPUCount()}
		if !known || k.ofNode == 0 || k.bound < k.ofNode { // such as a node that is gone
			return
		}
		if kinds[k]++; kinds[k] > kinds[usual] {
			usual = k
		}
	}
	for _, name := range s.prev.blocks[block].Nodes {
		if i, ok := s.find(name); ok {
			count(i)
		}
	}
	for _, i := range grp.nodes {
		if s.block(i) != block {
			count(i)
		}
	}
	if usual.ofNode == 0 {
		return 0, "", false
	}
	most = usual.bound / usual.ofNode
	return most, fmt.Sprintf("NVLink joins %d GPUs of %s at most, which are %d nodes", usual.bound, usual.chip, most), true
}
