package fit

import (
	"maps"
	"slices"
	"strings"
)

// leaf is a switch of a tree that has nodes. Its path has the names of the switches from the root to the leaf:
// /core/spine1/leaf1.
type leaf struct {
	path  string
	nodes []string
}

// rootOf is the name of the first switch of a path, and above is the path without the last switch.
func rootOf(path string) string { return strings.Split(path, "/")[1] }
func above(path string) string  { return path[:strings.LastIndexByte(path, '/')] }

// below is what is below a switch: the free nodes, and the levels of switches.
type below struct{ free, levels int }

// onLeaves says whether the job gets no more leaf switches than it asks for. It is stuck if free nodes differ, because
// Slurm takes these in an order of its own, or if roots differ, because Slurm takes any of these.
func (s *Site) onLeaves(j *Job, unsure int) outcome {
	tree := map[string]below{}
	var all []int
	for _, l := range s.leaves {
		free := s.count(l.nodes, j, unsure)[now]
		all = append(all, free)
		for path, levels := l.path, 0; path != ""; path, levels = above(path), levels+1 {
			tree[path] = below{tree[path].free + free, max(tree[path].levels, levels)}
		}
	}
	slices.Sort(all)
	if sum(all[len(all)-j.Switches:]) < j.Nodes {
		return no
	}
	fits := stuck
	for i := range s.Blocks {
		root := s.Blocks[i].Name
		if tree["/"+root].free < j.Nodes {
			continue
		}
		here := s.belowRoot(j, maps.Clone(tree), root)
		if differ := fits != stuck && fits != here; differ || unsure > now || s.off(j) || j.GPUs > 0 && s.mixed(j) {
			return stuck
		}
		fits = here
	}
	return fits
}

// belowRoot follows Slurm from one leaf switch to the next. Slurm takes the best one, then the best of those that are
// nearest to all before. A better one that is farther away stays if it holds all of the rest. (Slurm's function is
// _eval_nodes_topo.)
func (s *Site) belowRoot(j *Job, tree map[string]below, root string) outcome {
	far, rest := make([]int, len(s.leaves)), j.Nodes
	for range j.Switches {
		best := -1
		for i, l := range s.leaves {
			switch {
			case tree[l.path].free == 0 || rootOf(l.path) != root:
				continue
			case best < 0:
				best = i
				continue
			}
			better, holds := compare(tree, l.path, s.leaves[best].path, rest)
			if far[i] < far[best] && holds || far[i] == far[best] && better {
				best = i
			}
		}
		path := s.leaves[best].path
		if rest -= tree[path].free; rest <= 0 {
			return yes
		}
		for i := range s.leaves {
			far[i] += hops(path, s.leaves[i].path)
		}
		for taken := tree[path].free; path != ""; path = above(path) {
			tree[path] = below{tree[path].free - taken, tree[path].levels}
		}
	}
	return no
}

// compare reports whether the switch a is better than b for the rest of a job, and whether a holds the rest. One that
// holds it is better, and of two the one with fewer free nodes. If neither does, the switches above decide. Below the
// same switch the one with more free nodes is better, then the one with fewer levels.
func compare(tree map[string]below, a, b string, rest int) (better, holds bool) {
	for ; ; a, b = above(a), above(b) {
		first, second := tree[a], tree[b]
		switch holds = first.free >= rest; {
		case holds && second.free >= rest:
			return first.free < second.free, holds
		case holds || second.free >= rest:
			return holds, holds
		case above(a) == above(b):
			return first.free > second.free || first.free == second.free && first.levels < second.levels, holds
		}
	}
}

// hops is how many links are between two switches below one root.
func hops(a, b string) (links int) {
	for a != b {
		if len(a) < len(b) {
			a, b = b, a
		}
		a = above(a)
		links++
	}
	return links
}
