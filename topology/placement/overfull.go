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

// findOverfull finds the blocks that would have too many nodes with those that join. While people have
// not approved that, the nodes stay where they are. The block's own nodes stay in any case.
func (s *site) findOverfull(g grouping, c claims, st stays) (found problems) {
	for more := !s.policy.ByLeaf; more; { // a node that stays may leave no room for another
		s.overfull, more = nil, false
		staying := s.countStaying(g, st)
		for at := range g.groups {
			o := s.overfullBy(&g.groups[at], c.blockOf[at], st, staying)
			if o == nil {
				continue
			}
			d := s.policy.keeps(BlockOverfull, o.Block)
			if d == nil {
				s.overfull = append(s.overfull, o.Overfull)
				continue
			}
			more = true
			for _, i := range o.joins {
				st[i] = verdict{BlockOverfull, fmt.Sprintf("it names %s, but %s; it stays until somebody approves the change %s", g.groups[at].title(), &o.Overfull, d.Digest())}
				found.add(s.facts[i].Name, BlockOverfull, st[i].message)
			}
		}
	}
	return found
}

// overfull is an Overfull as the stages see it.
type overfull struct {
	Overfull
	joins []int
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
	o := &overfull{Overfull{Block: s.prev.blocks[block].Name, Has: has, Most: most, Why: why}, moved}
	for _, i := range moved {
		o.Joins = append(o.Joins, s.facts[i].SlurmName)
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
