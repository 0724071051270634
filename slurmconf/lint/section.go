package lint

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// section is one topology as a file has it. It keeps what Slurm tells apart: lines,
// and keys that are there and empty.
type section struct {
	name      string
	isDefault bool
	line      int
	kind      string // block, tree, flat, ring or torus3d; empty if none is given
	units     []unit
	sizes     []int64 // nil if BlockSizes is absent
	hasSizes  bool
	sizesLine int
	yaml      bool
}

// unit is one block or switch.
type unit struct {
	name        string
	nodes       string
	children    string
	hasNodes    bool
	hasChildren bool
	line        int
}

// lintSection applies the rules of the topology's kind.
func (l *linter) lintSection(s *section) {
	switch s.kind {
	case "block":
		l.lintBlocks(s)
	case "tree":
		l.lintTree(s)
	case "ring", "torus3d":
		if !l.Release.RingAndTorus() {
			l.fatal(s.line, ruleKind, "want one of block, tree, flat", fmt.Sprintf("Slurm %s has no topology of kind %s", l.Release, s.kind))
			return
		}
		l.notJudged(s.line, fmt.Sprintf("topology %q is of kind %s, which is not judged", s.name, s.kind))
	}
}

// noUnits judges a topology without any block or switch.
func (l *linter) noUnits(s *section, what string) {
	const advice = "write the blocks or switches, or keep the old file"
	message := fmt.Sprintf("there is no %s in the file", what)
	if l.Release.EmptyTopology() && !s.yaml {
		l.warn(max(s.line, 1), ruleEmptyFile, advice, message+fmt.Sprintf(": Slurm %s starts and places jobs anywhere", l.Release))
		return
	}
	l.fatal(max(s.line, 1), ruleEmptyFile, advice, message)
}

// lintName warns of names that Slurm takes in the file and cannot use later.
func (l *linter) lintName(what, name string, line int) {
	digits := len(name) - len(strings.TrimRight(name, "0123456789"))
	bad := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
	const advice = "want letters, digits, '_' and '-', at most 63, not ending in more than 18 digits"
	switch {
	case name == "":
		l.warn(line, "Name", advice, fmt.Sprintf("a %s has an empty name", what))
	case bad >= 0:
		l.warn(line, "Name", advice, fmt.Sprintf("%s %q: %q has a meaning in host lists or in Topology=", what, hostlist.Shorten(name), name[bad:bad+1]))
	case len(name) > 63 || digits > hostlist.MaxDigits:
		l.warn(line, "Name", advice, fmt.Sprintf("%s %q is too long or ends in too many digits", what, hostlist.Shorten(name)))
	}
}

// lintDuplicates reports names that are given twice: no release starts with them.
// It returns the index of each name's first unit.
func (l *linter) lintDuplicates(s *section, what string) map[string]int {
	index := make(map[string]int, len(s.units))
	for i := range s.units {
		u := &s.units[i]
		if first, ok := index[u.name]; ok {
			l.fatal(u.line, "DuplicateName", "rename one, or join their nodes", fmt.Sprintf("%s %q was already given in line %d", what, u.name, s.units[first].line))
			continue
		}
		index[u.name] = i
		l.lintName(what, u.name, u.line)
	}
	return index
}

// membership finds nodes that are in two units or in none.
type membership struct {
	owner  []int32 // by node number: 1 + index of the unit that has the node
	absent int     // known nodes that no unit has
	partly bool    // some nodes of units are not judged
}

func (l *linter) newMembership() *membership {
	m := &membership{owner: make([]int32, len(l.known))}
	if !l.open {
		m.absent = len(l.known)
	}
	return m
}

// lintAbsent warns of known nodes that no unit has. where says it for people, such as
// "in no block".
func (l *linter) lintAbsent(m *membership, line int, where, advice string) {
	if m.absent == 0 || m.partly {
		return
	}
	var names []string
	for n, i := range l.known {
		if m.owner[i] == 0 {
			names = append(names, n)
		}
	}
	l.warn(line, "NodesNowhere", advice, fmt.Sprintf("%d nodes are %s: %s", m.absent, where, hostlist.Shorten(hostlist.Compress(names))))
}

// unitNodes is what a unit's host list holds.
type unitNodes struct {
	count    int // different nodes that slurmctld knows
	unknown  []string
	function string   // the first host list function, such as block{b1}
	shared   []string // nodes that an earlier unit has
	other    int32    // that unit
	odd      string   // what Slurm reads otherwise than it looks
	err      error
}

// walk counts the nodes of unit i.
func (l *linter) walk(m *membership, i int, nodes string) unitNodes {
	var u unitNodes
	mark := int32(i + 1)
	functions := strings.IndexByte(nodes, '{') >= 0
	u.odd, u.err = l.hosts.Walk(nodes, func(name []byte) {
		if functions && isFunction(name) {
			if u.function == "" {
				u.function = string(name)
			}
			return
		}
		n, ok := l.number(name)
		if !ok {
			u.unknown = append(u.unknown, string(name))
			return
		}
		for int(n) >= len(m.owner) {
			m.owner = append(m.owner, 0)
		}
		old := m.owner[n]
		m.owner[n] = mark
		if old == 0 && !l.open {
			m.absent--
		}
		if old != mark {
			u.count++
		}
		if old != 0 && old != mark {
			u.shared, u.other = append(u.shared, string(name)), old-1
		}
	})
	return u
}

// lintUnit reports what is wrong with a unit's nodes, and counts them. whole is false
// if the list has nodes that are not judged.
func (l *linter) lintUnit(m *membership, s *section, i int, what string) (count int, whole bool) {
	u := &s.units[i]
	n := l.walk(m, i, u.nodes)
	if n.err != nil {
		l.fatal(u.line, ruleHostlist, "want such as n[001-018],n020", fmt.Sprintf("%s %s: %v", what, u.name, n.err))
	}
	l.odd(u.line, what+" "+u.name, n.odd)
	if n.function != "" {
		m.partly = true
		l.notJudged(u.line, fmt.Sprintf("%s %s: host list functions such as %s are not judged; slurmctld may crash on them", what, u.name, hostlist.Shorten(n.function)))
	}
	if len(n.unknown) > 0 {
		l.warn(u.line, ruleUnknown, "add the nodes to slurm.conf, or take them out", fmt.Sprintf("%s %s has nodes that are not in slurm.conf: %s", what, u.name, hostlist.Shorten(hostlist.Compress(n.unknown))))
	}
	if len(n.shared) > 0 {
		rule, message := "NodeInTwoBlocks", "Slurm accepts it silently"
		if what == "switch" {
			rule, message = "NodeOnTwoSwitches", "Slurm warns of it"
		}
		l.warn(u.line, rule, "leave each node in one", fmt.Sprintf("%s of %s %s are also in %s; %s", hostlist.Shorten(hostlist.Compress(n.shared)), what, u.name, s.units[n.other].name, message))
	}
	if u.hasNodes && n.err == nil && n.count == 0 && len(n.unknown) == 0 && n.function == "" {
		l.warn(u.line, "EmptyNodes", "leave the key out of a placeholder", fmt.Sprintf("%s %s has an empty list of nodes", what, u.name))
	}
	return n.count, n.function == ""
}
