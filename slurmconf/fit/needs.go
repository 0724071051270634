package fit

import (
	"cmp"
	"slices"
	"sort"
)

// Need says how many nodes of a block are missing.
type Need struct {
	Block string
	Count int
	// Nodes are the nodes that are not up and free. Any Count of these will do if the first in
	// the list are taken first: powered down, busy, unavailable.
	Nodes []string
}

// wait answers for a job that fits into all of later and not into what is free now. It finds few
// nodes whose return would let the job start.
func (s *Site) wait(j *Job, now, later *blocks, place Place) Answer {
	order := make([]int, len(now.Free))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(j.lacks(now, later, a), j.lacks(now, later, b)) })
	need := *later
	fits := func(free []int) bool {
		some := *later
		some.Free = free
		p, fits := some.find(j)
		if fits == yes {
			need, place = some, p
		}
		return fits == yes
	}
	// The fewest blocks of the order that do when all their nodes are back.
	sort.Search(len(order), func(n int) bool {
		free := slices.Clone(now.Free)
		for _, i := range order[:n] {
			free[i] = later.Free[i]
		}
		return fits(free)
	})
	// Only the nodes that the place takes. With so few Slurm may begin in a block where it gets stuck.
	free := place.taken(len(now.Free))
	for i := range free {
		free[i] = max(free[i], now.Free[i])
	}
	fits(free)
	a := Answer{Verdict: NotNow, Place: place}
	for i, n := range need.Free {
		if n > now.Free[i] {
			a.Needs = append(a.Needs, Need{s.Blocks[i].Name, n - now.Free[i], s.notUp(j, s.Blocks[i].Nodes)})
		}
	}
	if place.Apart > now.Apart {
		a.Needs = append(a.Needs, Need{Count: place.Apart - now.Apart, Nodes: s.notUp(j, s.Apart)})
	}
	return a
}

// lacks is how many nodes of a block must come back until one more segment fits there.
func (j *Job) lacks(now, later *blocks, block int) int {
	size := min(cmp.Or(j.Segment, j.Nodes), later.Sizes[0])
	lacks := size - now.Free[block]%size
	if now.Free[block]+lacks > later.Free[block] {
		lacks += later.Sizes[0] // none more fits: last
	}
	return lacks
}

// notUp are the nodes that the job could have if they were up and free.
func (s *Site) notUp(j *Job, nodes []string) []string {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
		state := s.State(node)
		return !j.takes(state) || j.unsure(state) || s.first(state) == up
	})
	slices.SortStableFunc(nodes, func(a, b string) int { return cmp.Compare(s.first(s.State(a)), s.first(s.State(b))) })
	return nodes
}
