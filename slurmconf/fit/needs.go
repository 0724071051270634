package fit

import (
	"cmp"
	"slices"
	"sort"
)

// Need says how many nodes of a block are missing.
type Need struct {
	Block string `json:"block,omitempty"`
	Count int    `json:"count"`
	// Nodes are the nodes that are not free. Any Count of these will do if the first in the list
	// are taken first: busy, then unavailable.
	Nodes []string `json:"anyOf"`
}

// wait answers for a job that fits into all of later and not into what is free now. It finds few
// nodes whose return would let the job start.
func (s *Site) wait(j *Job, free, later *blocks, place Place) Answer {
	order := make([]int, len(free.Free))
	for i := range order {
		order[i] = i
	}
	size := min(cmp.Or(j.Segment, j.Nodes), later.Sizes[0])
	lacks := func(block int) int { return size - free.Free[block]%size } // until one more segment fits there
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lacks(a), lacks(b)) })
	need := *later
	fits := func(nodes []int) bool {
		some := *later
		some.Free = nodes
		p, fits := some.find(j)
		if fits == yes {
			need, place = some, p
		}
		return fits == yes
	}
	// The fewest blocks of the order that do when all their nodes are back.
	sort.Search(len(order), func(n int) bool { // the last that fits is the smallest
		nodes := slices.Clone(free.Free)
		for _, i := range order[:n] {
			nodes[i] = later.Free[i]
		}
		return fits(nodes)
	})
	// Only the nodes that the place takes. With so few Slurm may begin in a block where it gets stuck.
	nodes := place.taken(len(free.Free))
	for i := range nodes {
		nodes[i] = max(nodes[i], free.Free[i])
	}
	fits(nodes)
	a := Answer{Verdict: NotNow, Place: place}
	for i, n := range need.Free {
		if n > free.Free[i] {
			a.Needs = append(a.Needs, Need{s.Blocks[i].Name, n - free.Free[i], s.notFree(j, s.Blocks[i].Nodes)})
		}
	}
	if place.Apart > free.Apart {
		a.Needs = append(a.Needs, Need{Count: place.Apart - free.Apart, Nodes: s.notFree(j, s.Apart)})
	}
	return a
}

// notFree are the nodes that the job could have if they were free.
func (s *Site) notFree(j *Job, nodes []string) []string {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
		state := s.State(node)
		return !j.takes(state) || j.unsure(state) || state.Use == Free
	})
	slices.SortStableFunc(nodes, func(a, b string) int { return cmp.Compare(s.State(a).Use, s.State(b).Use) })
	return nodes
}
