package lint

import (
	"errors"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// lintSection applies the rules of the topology's kind.
func (l *linter) lintSection(s *slurmconf.Section) {
	switch s.Kind {
	case topology.KindBlock, topology.KindTree:
		m := &membership{what: "block", owner: make([]int32, len(l.known))}
		l.members[s] = m
		if s.Kind == topology.KindTree {
			m.what = "switch"
		}
		if len(s.Units) == 0 {
			l.noUnits(s, m.what)
			return
		}
		if index := l.lintUnits(s, m.what); s.Kind == topology.KindBlock {
			l.lintBlocks(s, m)
		} else {
			l.lintTree(s, m, index)
		}
	case topology.KindFlat, "": // its reader says what is wrong
	default:
		if !s.YAML { // which its reader says
			return
		}
		l.NotJudged(s.Line, "topology %q is of kind %s, which is not judged", s.Name, s.Kind)
	}
}

// noUnits judges a topology without any block or switch.
func (l *linter) noUnits(s *slurmconf.Section, what string) {
	const remedy = "write the blocks or switches, or keep the old file"
	if !l.Release.Does(slurmconf.RefusesEmptyConf) && !s.YAML {
		l.Warn(s.Line, slurmconf.ReasonNoTopology, remedy, "there is no %s in the file: Slurm %s starts and places jobs anywhere", what, l.Release)
		return
	}
	l.Fatal(s.Line, slurmconf.ReasonNoTopology, remedy, "there is no %s in the file", what)
}

// lintName warns of names that Slurm takes in the file and cannot use later.
func (l *linter) lintName(what, name string, line int) {
	digits := len(name) - len(strings.TrimRight(name, "0123456789"))
	bad := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
	const remedy = "want letters, digits, '_' and '-', at most 63, not ending in more than 18 digits"
	switch {
	case name == "":
		l.Warn(line, syntax.ReasonName, remedy, "a %s has an empty name", what)
	case strings.ContainsAny(name, "[]{}"):
		l.NotJudged(line, "%s %q: brackets in a name are not judged", what, hostlist.Shorten(name))
	case bad >= 0:
		l.Warn(line, syntax.ReasonName, remedy, "%s %q: %q has a meaning in host lists or in Topology=", what, hostlist.Shorten(name), name[bad:bad+1])
	case len(name) > 63 || digits > hostlist.MaxDigits:
		l.Warn(line, syntax.ReasonName, remedy, "%s %q is too long or ends in too many digits", what, hostlist.Shorten(name))
	}
}

// lintUnits judges what blocks and switches have in common: names that are given twice, with which no release
// starts, and units without nodes. It returns the index of each name's first unit.
func (l *linter) lintUnits(s *slurmconf.Section, what string) map[string]int {
	index := make(map[string]int, len(s.Units))
	for i := range s.Units {
		u := &s.Units[i]
		if !u.HasNodes && !u.HasChildren && !l.Release.Does(slurmconf.EmptyUnits) {
			l.Fatal(u.Line, reasonPlaceholder, "give it nodes, or take it out; Slurm 25.05 and newer start with it", "%s %s has no nodes, and Slurm %s does not start with it", what, u.Name, l.Release)
		}
		if first, ok := index[u.Name]; ok {
			l.Fatal(u.Line, reasonDuplicate, "rename one, or join their nodes", "%s %q was already given in line %d", what, u.Name, s.Units[first].Line)
			continue
		}
		index[u.Name] = i
		l.lintName(what, u.Name, u.Line)
	}
	return index
}

// membership is which nodes a topology has.
type membership struct {
	what   string  // the topology's units: block or switch
	owner  []int32 // by node number: 1 + index of the unit that has the node
	partly bool    // some nodes of units are not judged
}

// has reports whether a unit has the node of a number.
func (m *membership) has(n int32) bool { return int(n) < len(m.owner) && m.owner[n] != 0 }

// lintUnit reports what is wrong with a unit's nodes, and counts them. judged is false
// if nobody looked into the list.
func (l *linter) lintUnit(m *membership, s *slurmconf.Section, i int) (count int, judged bool) {
	u, what := &s.Units[i], m.what
	mark, other := int32(i+1), int32(0)
	var unknown, shared []string
	err := hostlist.Walk(u.Nodes, func(name []byte) {
		n, ok := l.number(name)
		if !ok {
			unknown = append(unknown, string(name))
			return
		}
		for int(n) >= len(m.owner) {
			m.owner = append(m.owner, 0)
		}
		old := m.owner[n]
		m.owner[n] = mark
		if old == mark {
			return
		}
		if count++; old != 0 {
			shared, other = append(shared, string(name)), old-1
		}
	})
	switch {
	case errors.Is(err, hostlist.ErrNotPlain):
		m.partly = true
		l.NotJudged(u.Line, "%s %s: %v", what, u.Name, err)
	case err != nil:
		l.Fatal(u.Line, syntax.ReasonBadValue, "want such as n[001-018],n020", "%s %s: %v", what, u.Name, err)
	case u.HasNodes && count == 0 && len(unknown) == 0:
		l.Warn(u.Line, reasonPlaceholder, "leave the key out of a placeholder", "%s %s has an empty list of nodes", what, u.Name)
	}
	if len(unknown) > 0 && !l.grows() {
		l.Warn(u.Line, reasonUnknown, "add the nodes to slurm.conf, or take them out", "%s %s has nodes that are not in slurm.conf: %s", what, u.Name, hostlist.Shorten(hostlist.Compress(unknown)))
	}
	if len(shared) > 0 {
		message := "Slurm accepts it silently"
		if what == "switch" {
			message = "Slurm warns of it"
		}
		l.Warn(u.Line, reasonDuplicate, "leave each node in one", "%s of %s %s are also in %s; %s", hostlist.Shorten(hostlist.Compress(shared)), what, u.Name, s.Units[other].Name, message)
	}
	return count, !errors.Is(err, hostlist.ErrNotPlain)
}
