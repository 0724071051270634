package slurmconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// topologyFunctions are the host list functions that look into the topology:
// for the nodes of a block or switch, and of those that have a node.
var topologyFunctions = []string{"block", "switch", "blockwith", "switchwith"}

// lintFunctions judges the host list functions of unit i, and adds the nodes of
// those that slurmctld follows while it is still reading the topology.
func (l *linter) lintFunctions(m *membership, r *rawTopology, i int, what string, n *unitNodes) {
	const rule, advice = "HostlistFunction", "list the nodes themselves"
	if len(n.functions) == 0 {
		return
	}
	u := &r.units[i]
	for _, name := range n.functions {
		if l.functionCrashes(r, i, name) {
			l.fatal(u.line, rule, advice, fmt.Sprintf("%s %s: slurmctld %s crashes on %s here", what, u.name, l.Release, name))
			return
		}
	}
	l.warn(u.line, rule, advice, fmt.Sprintf("%s %s: %s has no nodes, or those of what is further up in the file", what, u.name, hostlist.Shorten(strings.Join(n.functions, ","))))
	l.addFunctions(m, r, i, i, n, n.functions, make(map[int]bool))
}

// cutFunction returns a function of the topology and what it is asked for.
func cutFunction(name string) (argument string, with, ok bool) {
	function, rest, _ := strings.Cut(name, "{")
	argument, _, closed := strings.Cut(rest, "}")
	return argument, strings.HasSuffix(function, "with"), closed && slices.Contains(topologyFunctions, function)
}

// functionCrashes reports whether slurmctld crashes on a function in unit i:
// newer ones on every one, older ones when they look for a node and come upon a
// unit without nodes of its own so far. None does where it does not know the
// node.
func (l *linter) functionCrashes(r *rawTopology, i int, name string) bool {
	argument, with, ok := cutFunction(name)
	if _, known := l.known[argument]; !ok || with && !known && (!l.open || argument == "") {
		return false
	}
	return l.Release.FunctionsCrash() || with && (i+1 < len(r.units) || slices.ContainsFunc(r.units, func(u rawUnit) bool { return !u.hasNodes }))
}

// addFunctions adds to unit i what the functions in unit j name: units before
// j, each of which is followed once.
func (l *linter) addFunctions(m *membership, r *rawTopology, i, j int, n *unitNodes, names []string, followed map[int]bool) {
	for _, name := range names {
		argument, with, ok := cutFunction(name)
		if !ok {
			continue
		}
		unit := -1
		if !with {
			unit = slices.IndexFunc(r.units[:j], func(u rawUnit) bool { return u.name == argument })
		} else {
			if node, known := l.known[argument]; known && int(node) < len(m.owner) {
				unit = int(m.owner[node]) - 1
			}
			n.add(m.walk(l, i, argument))
		}
		if unit < 0 || unit >= j || followed[unit] {
			continue
		}
		followed[unit] = true
		more := m.walk(l, i, r.units[unit].nodes)
		n.add(more)
		l.addFunctions(m, r, i, unit, n, more.functions, followed)
	}
}

// add adds further nodes.
func (n *unitNodes) add(more unitNodes) {
	n.count += more.count
	if len(more.shared) > 0 {
		n.shared, n.other = append(n.shared, more.shared...), more.other
	}
}
