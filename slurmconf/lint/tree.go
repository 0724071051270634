package lint

import (
	"fmt"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

const (
	// maxSwitchName is what topology.conf's parser takes.
	maxSwitchName = 64
	// maxTreePasses is how often Slurm goes over the switches to find their
	// levels before it takes them for no tree.
	maxTreePasses = 21
)

// lintTree applies the rules of topology/tree.
func (l *linter) lintTree(s *section) {
	if len(s.units) == 0 {
		l.noUnits(s, "switch")
		return
	}
	index := l.lintDuplicates(s, "switch")
	m := l.newMembership()
	parents := make([]int, len(s.units))
	children := make([][]int, len(s.units))
	for i := range s.units {
		u := &s.units[i]
		switch {
		case len(u.name) > maxSwitchName && !s.yaml:
			l.fatal(u.line, "SwitchName", fmt.Sprintf("want at most %d characters", maxSwitchName-1), fmt.Sprintf("switch %s has a name of %d characters", hostlist.Shorten(u.name), len(u.name)))
		case u.hasNodes && u.hasChildren:
			l.fatal(u.line, "NodesAndChildren", "leave one of them", fmt.Sprintf("switch %s has nodes and switches", u.name))
		case u.hasNodes:
			l.lintUnit(m, s, i, "switch")
		case u.hasChildren:
			children[i] = l.lintChildren(s, i, index, parents)
		case !l.Release.TreeSkeleton():
			l.fatal(u.line, "Placeholder", "give it nodes or switches, or take it out", fmt.Sprintf("switch %s has neither nodes nor switches, and Slurm %s does not start with it", u.name, l.Release))
		}
	}
	l.lintLoops(s, children)
	l.lintAbsent(m, s.units[0].line, "below no switch", "put them below a switch")
}

// lintChildren checks one switch's list and returns the children's indices.
func (l *linter) lintChildren(s *section, i int, index map[string]int, parents []int) []int {
	u := &s.units[i]
	var found []int
	odd, err := l.hosts.Walk(u.children, func(name []byte) {
		child, ok := index[string(name)]
		switch {
		case !ok || child == i:
			l.fatal(u.line, "UnknownChild", "give the child a line of its own, or take it out", fmt.Sprintf("switch %s names %s, which is no other switch of the file", u.name, name))
		case parents[child] != 0 && parents[child] != i+1:
			l.warn(u.line, "TwoParents", "leave it below one switch", fmt.Sprintf("switch %s is below %s and %s", name, s.units[parents[child]-1].name, u.name))
		}
		if ok {
			parents[child] = i + 1
			found = append(found, child)
		}
	})
	l.odd(u.line, "switch "+u.name, odd)
	if err != nil {
		l.fatal(u.line, ruleHostlist, "want such as leaf[1-4]", fmt.Sprintf("switch %s: %v", u.name, err))
	} else if len(found) == 0 {
		l.fatal(u.line, "UnknownChild", "name the switches below it, or leave the key out", fmt.Sprintf("switch %s has an empty list of switches: slurmctld crashes on it", u.name))
	}
	return found
}

// lintLoops goes over the switches as slurmctld does.
func (l *linter) lintLoops(s *section, children [][]int) {
	resolved := make([]bool, len(s.units))
	for i := range s.units {
		resolved[i] = len(children[i]) == 0
	}
	for range maxTreePasses {
		all := true
		for i := range s.units {
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
			return
		}
	}
	for i := range s.units {
		if !resolved[i] {
			l.fatal(s.units[i].line, "NotATree", "break the loop, or write children before their parents", fmt.Sprintf("switch %s is in a loop, or %d levels or more above its leaves in the order of the file", s.units[i].name, maxTreePasses))
			return
		}
	}
}
