package publisher

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	slurmlint "github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// linesByAnnotation chooses the lines of gres.conf for nodes that annotations place: nodes that join
// should change no file. slurmd detects the GPUs of a node if detection is known to give what the lines
// would give, or if only labels are known. The GPUs of all other nodes are listed, by name unless all
// nodes of this Slurm are known to have these GPUs.
func linesByAnnotation(plan *plandoc.Plan, p *publication.Cluster, g *gathered) {
	byNode := gres.ByNode(plan.Devices, nil)
	if prev := &g.prev.stored; len(byNode) == 0 && prev.Detect == "" && len(prev.Gres) == 0 {
		return
	}
	l := annotatedLines{Plan: plan, gathered: g, options: p.GresOptions(), byNode: byNode, facts: make(map[string]*topology.Facts, len(g.Facts))}
	for _, facts := range [][]topology.Facts{g.Expected, g.Facts} {
		for i := range facts {
			l.facts[facts[i].SlurmName] = &facts[i]
		}
	}
	l.before = g.prev.stored.Named()
	l.choose()
	if l.AllNodes = l.forAll(); l.AllNodes {
		plan.Problems = append(plan.Problems, topology.Finding{Reason: slurmlint.ReasonForAll,
			Message: "gres.conf lists devices and names no nodes, because all nodes are alike: slurmd does not start on a node of this Slurm that lacks one of them"})
		return
	}
	l.keepListed(p.Rules.BySlinky())
	l.listAhead()
	l.Detect = l.way
	if len(l.listed) == 0 {
		return
	}
	l.Gres = gres.ByName(l.listed)
	if l.way != "" {
		for i := range l.Gres {
			l.Gres[i].AutoDetect = cmp.Or(l.Gres[i].AutoDetect, gres.AutoDetectOff)
		}
		l.Gres = append([]gres.Line{{AutoDetect: l.way}}, l.Gres...)
	}
	names, why := slices.Sorted(maps.Keys(l.listed)), "it is not known that all nodes of this Slurm have the same GPUs"
	if i := slices.IndexFunc(names, func(name string) bool { return l.undetected[name] != "" }); i >= 0 {
		why = names[i] + ": " + l.undetected[names[i]]
	}
	plan.Problems = append(plan.Problems, topology.Finding{Reason: ReasonGresNamesNodes,
		Message: fmt.Sprintf("gres.conf lists the GPUs of %s by name (%s); a node that joins by another name is not listed until the publisher has seen it",
			plandoc.ShortList(names), why)})
}

// annotatedLines are the lines of nodes that annotations place.
type annotatedLines struct {
	*plandoc.Plan
	*gathered
	options gres.Options
	facts   map[string]*topology.Facts
	// byNode has the lines of all nodes, and listed has the lines of nodes that do not detect their GPUs by way.
	// undetected says why slurmd does not find the GPUs of a node as the lines list them.
	byNode, listed map[string][]gres.Line
	way            string
	undetected     map[string]string
	// before has the lines of the published file by name. Some of the names may have no node.
	before map[string][]gres.Line
}

// choose chooses how nodes detect their GPUs, and which nodes list them.
func (l *annotatedLines) choose() {
	l.listed = map[string][]gres.Line{}
	l.way, l.undetected = l.options.Detection(l.Facts)
	switch l.options.AutoDetect {
	case "":
		if l.prev.lists() {
			l.way, l.undetected = "", nil
		}
	case gres.AutoDetectNVML: // not every slurmd of a node without GPUs has it; for before, see forAll
		if len(l.byNode) < len(l.Plan.Nodes) || len(l.before) > 0 {
			l.way = ""
		}
	}
	for node, lines := range l.byNode {
		if l.lists(lines, l.undetected[node]) {
			l.listed[node] = lines
		}
	}
}

// lists reports whether the file lists a node's own lines beside the way in which the others detect their GPUs.
func (l *annotatedLines) lists(lines []gres.Line, undetected string) bool {
	detects := lines[0].AutoDetect != "" && lines[0].AutoDetect == l.way
	return !detects && (l.way == "" || l.options.AutoDetect != "" || undetected != "")
}

// reports reports whether a node has a report. Without one it is not known whether slurmd finds its GPUs.
func (l *annotatedLines) reports(node string) bool {
	f := l.facts[node]
	return f != nil && f.Report != nil
}

// forAll reports whether the file has the lines without NodeName, because all nodes of this Slurm are known to have
// these GPUs. Nothing is known of a Node that may still get a pod of a DaemonSet. While NodeSets cannot be read,
// published lines without NodeName stay. A file that names nodes goes on naming nodes: else it would change
// whenever a NodeSet loses its last pod or gets its first.
func (l *annotatedLines) forAll() bool {
	known := l.AllPools || !l.NodeSets && l.prev.stored.AllNodes
	if !known || len(l.before)+len(l.Expected) > 0 || len(l.options.LeaveOut) > 0 || len(l.listed) < len(l.byNode) || len(l.byNode) < len(l.Plan.Nodes) {
		return false
	}
	for _, pool := range l.Pools {
		if slices.ContainsFunc(pool.Names, func(name string) bool { return l.listed[name] == nil || l.facts[name].Shared }) {
			return false // a node without GPUs or with a part of them, or one that the publication does not take
		}
	}
	return gres.Alike(l.listed) != nil
}

// keepListed keeps the published lines of a name until a report says otherwise: the lines of a node without
// a report, and the lines of a name that a NodeSet can give again. Nobody knows which names a NodeSet without
// a pod gives. While there may be such a NodeSet, all names that are counted from 0 stay.
func (l *annotatedLines) keepListed(slinky bool) {
	listed := func(name string) bool { return l.before[name] != nil }
	for name, lines := range l.before {
		if l.listed[name] != nil || l.reports(name) || l.options.AutoDetect != "" && l.byNode[name] != nil {
			continue
		}
		if l.facts[name] != nil || slices.ContainsFunc(l.Pools, func(pool inputs.Pool) bool { return pool.Numbers(name) }) ||
			slinky && !l.AllPools && inputs.IsCounted(name, listed) {
			l.listed[name] = lines
		}
	}
}

// listAhead lists names that NodeSets can still give, so that the file stays as it is when their pods come.
// Further nodes of a NodeSet should be like most of its nodes. Names stay listed when the NodeSet shrinks: it may
// grow again at once.
func (l *annotatedLines) listAhead() {
	for _, pool := range l.Pools {
		lines, kinds := l.linesOf(pool)
		if kinds > 1 {
			l.Plan.Problems = append(l.Plan.Problems, topology.Finding{Reason: ReasonGresNamesNodes,
				Message: fmt.Sprintf("gres.conf has different lines for nodes of NodeSet %s/%s: its next node gets those of most, and slurmctld drains a node that has other GPUs; give each kind of machine a NodeSet of its own", pool.Namespace, pool.NodeSet)})
		}
		if kinds == 0 { // nothing is known of its nodes yet
			continue
		}
		foreign := map[string]bool{} // on Nodes that the publication does not take
		for _, name := range pool.Names {
			foreign[name] = l.facts[name] == nil
		}
		again := slices.DeleteFunc(slices.Collect(maps.Keys(l.before)), func(name string) bool { return !pool.Numbers(name) })
		for i, name := range slices.Concat(pool.Names, pool.Coming, again) {
			switch {
			case l.reports(name) || foreign[name]:
			case lines == nil && (l.facts[name] == nil || l.before[name] == nil): // it detects its GPUs as the others do
				delete(l.listed, name)
			case lines != nil && (i >= len(pool.Names) || l.facts[name].GPUCount() > 0):
				l.listed[name] = lines
			}
		}
	}
	lines, _ := gres.FromFacts(l.Expected, nil, l.options)
	expected := gres.ByNode(lines, nil)
	_, undetected := l.options.Detection(l.Expected)
	for name, own := range expected {
		if l.byNode[name] == nil && l.lists(own, undetected[name]) {
			l.listed[name] = own
		}
	}
}

// linesOf returns the listed lines of most nodes of a NodeSet, or nil if slurmd detects their GPUs, and how
// many kinds of lines its nodes have. A node without a report counts only if its lines are known, and beside
// nodes with a report only if its lines are published.
func (l *annotatedLines) linesOf(pool inputs.Pool) (most []gres.Line, different int) {
	type kind struct {
		lines []gres.Line
		nodes int
	}
	var kinds []kind
	best, reported := 0, slices.ContainsFunc(pool.Names, l.reports)
	for _, name := range pool.Names {
		lines := l.listed[name]
		if !l.reports(name) && (lines == nil || reported && l.before[name] == nil) {
			continue
		}
		at := slices.IndexFunc(kinds, func(k kind) bool { return reflect.DeepEqual(k.lines, lines) })
		if at < 0 {
			at, kinds = len(kinds), append(kinds, kind{lines: lines})
		}
		if kinds[at].nodes++; kinds[at].nodes > best {
			most, best = lines, kinds[at].nodes
		}
	}
	return most, len(kinds)
}
