package lint

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	// maxSwitchName is what topology.conf's parser takes.
	maxSwitchName = 64
	// maxTreePasses is how often Slurm goes over the switches to find their
	// levels before it takes them for no tree.
	maxTreePasses = 21
	// maxTreeLevels is the most levels of switches that lint lets through. Slurm loads
	// 300 levels at once, 2,000 in a quarter of a minute and 5,000 in five minutes, in
	// which it answers nothing. Networks have three or four.
	maxTreeLevels = 20
	// fewSwitches is how many switches load at once in any shape.
	fewSwitches = 64
	// nodesOfEmptyLeaf is how many nodes an empty leaf counts, to which nodes come that
	// name it when they register.
	nodesOfEmptyLeaf = 4
)

// lintTree applies the rules of topology/tree. index has the first switch of each name.
func (l *linter) lintTree(s *slurmconf.Section, m *membership, index map[string]int) {
	parents := make([]int, len(s.Units))
	children := make([][]int, len(s.Units))
	nodes := 0 // below the switches; an empty leaf counts as one
	counts := make([]int, len(s.Units))
	for i := range s.Units {
		u := &s.Units[i]
		switch {
		case len(u.Name) > maxSwitchName && !s.YAML:
			l.Fatal(u.Line, syntax.ReasonName, fmt.Sprintf("want at most %d characters", maxSwitchName-1), "switch %s has a name of %d characters", hostlist.Shorten(u.Name), len(u.Name))
		case u.HasNodes && u.HasChildren:
			l.Fatal(u.Line, reasonNotATree, "leave one of them", "switch %s has nodes and switches", u.Name)
		case u.HasNodes:
			count, judged := l.lintUnit(m, s, i)
			counts[i] = count
			if nodes += max(count, 1); !judged {
				nodes += len(s.Units) // whoever they are
			}
		case u.HasChildren:
			children[i] = l.lintChildren(s, i, index, parents)
		default:
			nodes += nodesOfEmptyLeaf
		}
	}
	if l.lintLoops(s, children) {
		l.lintTreeSize(s, children, nodes)
		l.lintRoots(s, children, parents, counts)
	}
}

// lintChildren checks one switch's list and returns the children's indices.
func (l *linter) lintChildren(s *slurmconf.Section, i int, index map[string]int, parents []int) []int {
	u := &s.Units[i]
	var found []int
	err := hostlist.Walk(u.Children, func(name []byte) {
		child, ok := index[string(name)]
		switch {
		case !ok || child == i:
			l.Fatal(u.Line, reasonNotATree, "give the child a line of its own, or take it out", "switch %s names %s, which is no other switch of the file", u.Name, name)
		case parents[child] != 0 && parents[child] != i+1:
			l.Warn(u.Line, reasonNotATree, "leave it below one switch", "switch %s is below %s and %s", name, s.Units[parents[child]-1].Name, u.Name)
		}
		if ok {
			parents[child] = i + 1
			found = append(found, child)
		}
	})
	switch {
	case errors.Is(err, hostlist.ErrNotPlain):
		l.NotJudged(u.Line, "switch %s: %v", u.Name, err)
	case err != nil:
		l.Fatal(u.Line, syntax.ReasonBadValue, "want such as leaf[1-4]", "switch %s: %v", u.Name, err)
	case len(found) == 0:
		l.Fatal(u.Line, reasonNotATree, "name the switches below it, or leave the key out", "switch %s has an empty list of switches: slurmctld crashes on it", u.Name)
	}
	return found
}

// lintRoots warns of nodes that no switch joins. counts are the nodes at each leaf. What Quoin
// writes has its reasons, which the plan says: only a site's own slurm.conf is judged.
func (l *linter) lintRoots(s *slurmconf.Section, children [][]int, parents, counts []int) {
	if l.SlurmConf == "" {
		return
	}
	sums := make([]int, len(s.Units)) // 1 + the nodes below a switch
	var below func(i int) int
	below = func(i int) int {
		if sums[i] == 0 {
			sums[i] = 1 + counts[i]
			for _, c := range children[i] {
				sums[i] += below(c)
			}
		}
		return sums[i] - 1
	}
	var roots []string
	largest, first := 0, 0
	for i := range s.Units {
		if parents[i] > 0 {
			continue
		}
		if n := below(i); n > 0 {
			roots, largest = append(roots, s.Units[i].Name), max(largest, n)
			first = cmp.Or(first, s.Units[i].Line)
		}
	}
	if len(roots) > 1 {
		l.Warn(first, topology.ReasonLeavesApart, "write one switch above them, if cables join them", "no switch is above all nodes: %d switches have none above them, %s, so Slurm refuses jobs of more than %d nodes", len(roots), hostlist.Shorten(hostlist.Compress(roots)), largest)
	}
}

// lintTreeSize refuses trees that no network has. Slurm would load them for minutes.
func (l *linter) lintTreeSize(s *slurmconf.Section, children [][]int, nodes int) {
	const remedy = "correct the labels or reports that name the switches"
	if n := len(s.Units); n > fewSwitches && n > nodes {
		l.Fatal(s.Units[0].Line, reasonTreeSize, remedy, "there are %d switches and %d nodes: slurmctld may load the file for minutes", n, nodes)
	}
	levels := make([]int, len(s.Units))
	var height func(i int) int
	height = func(i int) int {
		if levels[i] == 0 {
			levels[i] = 1
			for _, c := range children[i] {
				levels[i] = max(levels[i], 1+height(c))
			}
		}
		return levels[i]
	}
	for i := range s.Units {
		if height(i) > maxTreeLevels {
			l.Fatal(s.Units[i].Line, reasonTreeSize, remedy, "switch %s is more than %d levels above its leaves: slurmctld may load the file for minutes", s.Units[i].Name, maxTreeLevels-1)
			return
		}
	}
}

// lintLoops goes over the switches as slurmctld does. It reports whether they are a tree.
func (l *linter) lintLoops(s *slurmconf.Section, children [][]int) bool {
	resolved := make([]bool, len(s.Units))
	for i := range s.Units {
		resolved[i] = len(children[i]) == 0
	}
	for range maxTreePasses {
		all := true
		for i := range s.Units {
			if resolved[i] {
				continue
			}
			ready := true
			for _, c := range children[i] {
				ready = ready && resolved[c]
			}
			resolved[i] = ready
			all = all && ready
		}
		if all {
			return true
		}
	}
	for i := range s.Units {
		if !resolved[i] {
			l.Fatal(s.Units[i].Line, reasonNotATree, "break the loop, or write children before their parents", "switch %s is in a loop, or %d levels or more above its leaves in the order of the file", s.Units[i].Name, maxTreePasses)
			return false
		}
	}
	return true
}
