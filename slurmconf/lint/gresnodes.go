package lint

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// nodeGroup is nodes that the same lines of gres.conf are for, and one line of
// slurm.conf.
type nodeGroup struct {
	conf  *Node // nil if slurm.conf is not known or has no such node
	first string
	names []string // of nodes with conf only
	own   bool     // a line names them
	lines []gresLine
}

// String returns the names as a host list.
func (a *nodeGroup) String() string { return hostlist.Shorten(hostlist.Compress(a.names)) }

// groups returns all nodes, grouped.
func (g *gresFile) groups() []*nodeGroup {
	type key struct {
		lines string // the indices of the lines
		conf  *Node
	}
	byKey := map[key]*nodeGroup{}
	var buf []byte
	add := func(name string, own []int32) {
		buf = buf[:0]
		for _, index := range own {
			buf = binary.AppendUvarint(buf, uint64(index)) //nolint:gosec // an index
		}
		k := key{string(buf), g.Nodes[name]}
		a := byKey[k]
		if a == nil {
			a = &nodeGroup{conf: k.conf, first: name, own: len(own) > 0}
			for _, index := range slices.Sorted(slices.Values(slices.Concat(own, g.all))) { // as in the file
				a.lines = append(a.lines, g.lines[index])
			}
			byKey[k] = a
		}
		a.first = min(a.first, name)
		if k.conf != nil {
			a.names = append(a.names, name)
		}
	}
	if g.open { // any other node
		add("", nil)
	}
	for name, n := range g.known {
		if int(n) < len(g.own) {
			add(name, g.own[n])
		} else {
			add(name, nil)
		}
	}
	for name := range g.Nodes {
		if _, ok := g.known[name]; !ok {
			add(name, nil)
		}
	}
	out := make([]*nodeGroup, 0, len(byKey))
	for _, a := range byKey {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *nodeGroup) int { return cmp.Compare(a.first, b.first) })
	return out
}

// lintNodes judges what all lines together give each node of a group.
func (g *gresFile) lintNodes(a *nodeGroup) {
	if slices.ContainsFunc(a.lines, func(l gresLine) bool { return l.bad }) {
		g.note(a.names, topology.Fatal, "")
	}
	if slices.ContainsFunc(a.lines, func(l gresLine) bool { return l.odd }) {
		g.note(a.names, topology.Unknown, "one of its lines is not judged")
		return
	}
	var lines, gpus []gres.Line
	shared := map[string]gres.Line{} // by name, the first line with the counts of all
	line := 1                        // the one that says how the nodes detect their GPUs
	for _, l := range a.lines {
		lines = append(lines, l.Line)
		if l.AutoDetect != "" && (line == 1 || l.Nodes != "") {
			line = l.Number
		}
		switch l.Name {
		case "":
		case gpuName:
			gpus = append(gpus, l.Line)
		default:
			s := shared[l.Name]
			s.Number, s.Count = cmp.Or(s.Number, l.Number), s.Count+max(1, l.Count)
			shared[l.Name] = s
		}
	}
	g.lintShared(a, shared)
	way, err := gres.Detects(lines)
	if err != nil {
		g.once(topology.Unknown, a, line, syntax.ReasonNotJudged, toSlurm, err.Error())
		return
	}
	if !g.isType(gpuName) || g.lintMixed(a, gpus) {
		return
	}
	detects := way != "" && way != gres.AutoDetectOff
	if i := slices.IndexFunc(gpus, gres.Line.HasFile); i >= 0 && detects {
		g.once(topology.Warning, a, gpus[i].Number, reasonAutoDetect, "use either for a node", "the line has File and the node detects its GPUs: Slurm drains the node if they differ")
	}
	g.lintFlagsTogether(a, gpus)
	gpus = gres.Ordered(gpus)
	g.lintDevices(a, gpus)
	switch {
	case a.conf == nil && g.Nodes == nil && !detects:
		g.lintNoFile(a, gpus)
	case a.conf == nil:
	case !detects:
		g.lintConf(a, gpus)
	default:
		g.lintFound(a, line, way)
		switch {
		case way == gres.AutoDetectNVML && len(a.conf.Gres.GPUs) > 0:
			g.once(topology.Warning, a, line, reasonAutoDetect, "look with slurmd -G on a node", "AutoDetect=nvml needs a slurmd that is built with NVML: another finds no GPUs, and slurmctld drains the node")
		case way == gres.AutoDetectNvidia && a.conf.Cloud:
			g.Warn(line, reasonAutoDetect, "write lines with File for these nodes", "%s: AutoDetect=%s of nodes with State=CLOUD: slurmctld looks for their devices on its own machine, and logs an error for each node", a, way)
		}
	}
}

// lintNoFile reports gpus without a File on nodes of which nothing else is known.
func (g *gresFile) lintNoFile(a *nodeGroup, gpus []gres.Line) {
	for _, l := range gpus {
		if !l.HasFile() {
			g.once(topology.Fatal, a, l.Number, reasonFewerGPUs, "write File=, or AutoDetect", "the line has no File and its nodes detect no GPUs: slurmd ignores it, and slurmctld drains a node whose Gres= counts them")
		}
	}
}

// saying is a finding that is made once, however many nodes it is about.
type saying struct {
	severity topology.Severity
	line     int
	what     string // the remedy, or a name that GresTypes lacks
}

// toSlurm is what to do about a finding that is not judged.
const toSlurm = "check it with Slurm itself"

// once adds a finding about nodes unless one of its line and remedy is there.
func (g *gresFile) once(severity topology.Severity, a *nodeGroup, line int, reason, remedy, message string) {
	if g.said[saying{severity, line, remedy}] {
		g.note(a.names, severity, message)
		return
	}
	g.said[saying{severity, line, remedy}] = true
	if a.own {
		message += " (node " + a.first + ")"
	}
	g.Add(severity, line, reason, remedy, "%s", message)
}

// lintFlagsTogether reports Flags that differ from the line before. A line without Flags
// inherits the Flags of the line before. A first line without Flags sets all variables.
func (g *gresFile) lintFlagsTogether(a *nodeGroup, gpus []gres.Line) {
	last := ""
	for _, l := range gpus {
		flags := strings.Join(l.Flags, ",")
		if flags != "" && last != "" && flags != last {
			g.once(topology.Fatal, a, l.Number, reasonGresLine, "give all lines of gpus the same Flags, or only the first", "Flags="+flags+" differs from an earlier line for gpu: slurmd does not start")
		}
		if flags != "" || last == "" {
			last = cmp.Or(flags, "all variables")
		}
	}
}

// lintMixed reports lines that do not go together, and whether they are not judged.
func (g *gresFile) lintMixed(a *nodeGroup, gpus []gres.Line) (odd bool) {
	for i, l := range gpus {
		first := &gpus[0]
		switch {
		case l.HasFile() != first.HasFile() || (l.Type != "") != (first.Type != ""):
			g.once(topology.Unknown, a, l.Number, syntax.ReasonNotJudged, "give every line for gpu a File and a Type, or none", "some lines for gpu have File or Type and others do not")
			return true
		case i > 0 && !l.HasFile() && l.Type == "":
			g.once(topology.Fatal, a, l.Number, reasonGresLine, "join the counts on one line", "a second line for gpu without File and Type")
		}
	}
	return false
}

// lintDevices reports a device file that slurmd would take twice. slurmd takes as many
// devices as slurm.conf has.
func (g *gresFile) lintDevices(a *nodeGroup, gpus []gres.Line) {
	place, taken := uint64(0), uint64(math.MaxUint64)
	if g.Nodes != nil {
		taken = 0
		if a.conf != nil {
			taken = gres.Total(a.conf.Gres.GPUs)
		}
	}
	devices := map[string]bool{}
	for _, l := range gpus {
		at := place
		for _, name := range l.Files {
			switch twice := devices[name]; {
			case twice && at < taken:
				g.once(topology.Fatal, a, l.Number, reasonGresLine, "list each device once for a node", name+" is given twice, slurmd does not start with both")
			case twice:
				g.once(topology.Warning, a, l.Number, reasonGresLine, "list each device once for a node", name+" is given twice, slurmd takes one of them")
			}
			devices[name] = true
			at++
		}
		place += max(1, l.Devices())
	}
}

// lintShared judges the parts of GPUs that jobs share.
func (g *gresFile) lintShared(a *nodeGroup, lines map[string]gres.Line) {
	if a.conf == nil {
		return
	}
	for name, have := range lines {
		if want := a.conf.Gres.Others[name]; have.Count < want {
			g.Fatal(have.Number, reasonGresLine, "give both the same number", "%s: %s has %d on the lines, and %d in Gres= of slurm.conf: slurmd does not start", a, name, have.Count, want)
		}
	}
}

// lintForAll names nodes of slurm.conf without GPUs that read devices for all nodes. If no node has Gres=,
// slurm.conf does not say which nodes have GPUs, and jobs get none.
func (g *gresFile) lintForAll() {
	if !g.isType(gpuName) {
		return
	}
	if at := slices.IndexFunc(g.lines, gresLine.givesGPUs); g.uncounted && at >= 0 && !g.lines[at].forNone {
		g.Warn(g.lines[at].Number, reasonMoreGPUs, "write such as Gres=gpu:8 on the lines NodeName of slurm.conf", "no node of slurm.conf has gpus in Gres=: no job gets GPUs")
		return
	}
	var with, without []string
	for name, n := range g.Nodes {
		if len(n.Gres.GPUs) > 0 {
			with = append(with, name)
		} else {
			without = append(without, name)
		}
	}
	if len(with) == 0 || len(without) == 0 {
		return
	}
	for _, index := range g.all {
		l := &g.lines[index]
		if r := gres.Listed([]gres.Line{l.Line}); !l.odd && !r.SuitsNode(gres.Registration{}) && len(r.GPUs) > 0 {
			g.Warn(l.Number, ReasonForAll, "write NodeName="+hostlist.Compress(with), "the line has no NodeName, so it counts on nodes without Gres= in slurm.conf too: slurmd of %s waits 20 seconds for %s and does not start",
				hostlist.Shorten(hostlist.Compress(without)), r.GPUs[0].Device)
			return
		}
	}
}
