package slurmconf

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// Lint says what slurmctld, and for gres.conf slurmd, of the stated release
// does with the files, which together are the cluster's: topology.conf,
// topology.yaml and gres.conf, told apart by the end of their names. A file
// that the release does not read is named and not looked into. Findings are in
// the order of files and lines. Verdicts follow runs of the real daemons.
func Lint(files []File, o Options) []Finding {
	l := newLinter(o)
	conf, yaml := -1, -1
	for i, f := range files {
		switch {
		case strings.HasSuffix(f.Name, ".yaml") || strings.HasSuffix(f.Name, ".yml"):
			yaml = i
		case !strings.HasSuffix(f.Name, "gres.conf"):
			conf = i
		}
	}
	if yaml >= 0 && !l.Release.YAML() {
		l.file = files[yaml].Name
		l.warn(1, "YAMLNotRead", "write topology.conf for this release", fmt.Sprintf("Slurm %s does not read topology.yaml", l.Release))
		yaml = -1
	}
	switch {
	case yaml >= 0:
		l.lintYAML(files[yaml])
		if conf >= 0 {
			l.file = files[conf].Name
			l.warn(1, "ConfNotRead", "remove one of the two files", "topology.conf is not read while there is a topology.yaml")
		}
	case conf >= 0:
		l.lintConf(files[conf])
	case l.Plugin == PluginBlock || l.Plugin == PluginTree:
		l.file = "topology.conf"
		l.fatal(1, "MissingFile", "write the file before slurmctld starts", fmt.Sprintf("topology/%s needs a topology.conf and there is none", l.Plugin))
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name, "gres.conf") {
			l.lintGres(f)
		}
	}
	order := make(map[string]int, len(files))
	for i, f := range files {
		order[f.Name] = i
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line))
	})
	return l.findings
}

// linter holds what one Lint knows.
type linter struct {
	reporter
	Options
	known map[string]int32 // node -> its number
	hosts hostlist.Walker
	open  bool // every node is known, and gets a number when it is met
}

func newLinter(o Options) *linter {
	l := &linter{Options: o}
	if l.Release == 0 {
		l.Release = Latest
	}
	l.known, l.open = make(map[string]int32, max(64, len(o.KnownNodes))), o.KnownNodes == nil
	for i, n := range o.KnownNodes {
		l.known[n] = int32(i)
	}
	return l
}

// number returns the number of a node that slurm.conf has.
func (l *linter) number(name []byte) (int32, bool) {
	n, ok := l.known[string(name)]
	if !ok && l.open {
		n, ok = int32(len(l.known)), true
		l.known[string(name)] = n
	}
	return n, ok
}

func (l *linter) lintYAML(f File) {
	l.file = f.Name
	d := decodeYAML(f.Name, f.Data)
	l.findings = append(l.findings, d.findings...)
	names, defaults := make(map[string]int), 0
	for i := range d.raws {
		r := &d.raws[i]
		if line, ok := names[r.name]; ok {
			l.warn(r.line, "DuplicateTopology", "rename one", fmt.Sprintf("topology %q was already given in line %d", r.name, line))
		}
		names[r.name] = r.line
		if r.isDefault {
			defaults++
		}
		l.lintTopology(r)
	}
	if defaults != 1 && len(d.raws) > 0 {
		l.warn(d.raws[0].line, "ClusterDefault", "set cluster_default: true in exactly one topology", fmt.Sprintf("%d topologies are the default: Slurm takes the first", defaults))
	}
	if len(d.raws) > 0 {
		l.lintPartitions(names)
	}
}

func (l *linter) lintPartitions(names map[string]int) {
	for _, p := range l.PartitionTopologies {
		if _, ok := names[p]; !ok {
			l.fatal(1, "UnknownTopology", "add the topology, or correct Topology= of the partition", fmt.Sprintf("a partition uses topology %q, which is not in the file", p))
		}
	}
}

// lintTopology applies the rules of the topology's kind.
func (l *linter) lintTopology(r *rawTopology) {
	switch r.kind {
	case "block":
		l.lintBlocks(r)
	case "tree":
		l.lintTree(r)
	case "ring", "torus3d":
		if !l.Release.RingAndTorus() {
			l.fatal(r.line, ruleKind, "want one of block, tree, flat", fmt.Sprintf("Slurm %s has no topology of kind %s", l.Release, r.kind))
		}
	}
}

// lintName warns of names that Slurm takes in the file and trips over later.
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
		l.warn(line, "Name", advice, fmt.Sprintf("%s %q: %q has a meaning of its own in host lists and in Topology=", what, hostlist.Shorten(name), name[bad:bad+1]))
	case len(name) > 63 || digits > hostlist.MaxDigits:
		l.warn(line, "Name", advice, fmt.Sprintf("%s %q is too long or ends in too many digits", what, hostlist.Shorten(name)))
	}
}

// membership finds nodes that are given twice, unknown or nowhere.
type membership struct {
	owner  []int32 // by node number: 1 + index of the unit that has it
	absent int     // known nodes that no unit has
}

func (l *linter) newMembership() *membership {
	m := &membership{owner: make([]int32, len(l.known))}
	if !l.open {
		m.absent = len(l.known)
	}
	return m
}

// unitNodes is what walking one unit's host list found.
type unitNodes struct {
	count     int // different nodes that slurmctld knows
	unknown   []string
	functions []string // names with a {: host list functions
	shared    []string // nodes that an earlier unit has
	other     int32    // that unit
	odd       string   // what readHosts says of the list
	err       error
}

// walk counts the nodes of unit i.
func (m *membership) walk(l *linter, i int, nodes string) unitNodes {
	var u unitNodes
	mark := int32(i + 1)
	functions := strings.IndexByte(nodes, '{') >= 0
	u.odd, u.err = l.hosts.Walk(nodes, func(name []byte) {
		if functions && bytes.IndexByte(name, '{') >= 0 {
			u.functions = append(u.functions, string(name))
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
		was := m.owner[n]
		m.owner[n] = mark
		if was == 0 && !l.open {
			m.absent--
		}
		if was != mark {
			u.count++
		}
		if was != 0 && was != mark {
			u.shared, u.other = append(u.shared, string(name)), was-1
		}
	})
	return u
}

// absentNodes lists the known nodes that no unit has.
func (l *linter) absentNodes(m *membership) string {
	var names []string
	for n, i := range l.known {
		if m.owner[i] == 0 {
			names = append(names, n)
		}
	}
	return hostlist.Compress(names)
}

// lintUnit walks a unit's nodes and reports what is wrong with them.
func (l *linter) lintUnit(m *membership, r *rawTopology, i int, what string) int {
	u := &r.units[i]
	n := m.walk(l, i, u.nodes)
	if n.err != nil {
		l.fatal(u.line, "BrokenHostlist", "want such as n[001-018],n020", fmt.Sprintf("%s %s: %v", what, u.name, n.err))
	}
	l.lintOdd(u.line, what+" "+u.name, n.odd)
	l.lintFunctions(m, r, i, what, &n)
	if len(n.unknown) > 0 {
		l.warn(u.line, "UnknownNode", "add the nodes to slurm.conf, or take them out", fmt.Sprintf("%s %s has nodes that are not in slurm.conf: %s", what, u.name, hostlist.Shorten(hostlist.Compress(n.unknown))))
	}
	if len(n.shared) > 0 {
		rule, message := "NodeInTwoBlocks", "Slurm accepts it silently"
		if what == "switch" {
			rule, message = "NodeOnTwoSwitches", "Slurm warns of it"
		}
		l.warn(u.line, rule, "leave each node in one", fmt.Sprintf("%s of %s %s are also in %s; %s", hostlist.Shorten(hostlist.Compress(n.shared)), what, u.name, r.units[n.other].name, message))
	}
	if u.hasNodes && n.err == nil && n.count == 0 && len(n.unknown)+len(n.functions) == 0 {
		l.warn(u.line, "EmptyNodes", "leave the key out of a placeholder", fmt.Sprintf("%s %s has an empty list of nodes", what, u.name))
	}
	return n.count
}

// lintOdd warns of a list that Slurm reads in another way than it looks.
func (l *linter) lintOdd(line int, where, odd string) {
	if odd != "" {
		l.warn(line, "OddHostlist", "write ranges such as n[001-018,020]", where+": "+odd)
	}
}

// lintDuplicates reports names given twice, which no release starts with.
func (l *linter) lintDuplicates(r *rawTopology, what string) map[string]int {
	index := make(map[string]int, len(r.units))
	for i := range r.units {
		u := &r.units[i]
		if first, ok := index[u.name]; ok {
			l.fatal(u.line, "DuplicateName", "rename one, or join their nodes", fmt.Sprintf("%s %q was already given in line %d", what, u.name, r.units[first].line))
			continue
		}
		index[u.name] = i
		l.lintName(what, u.name, u.line)
	}
	return index
}
