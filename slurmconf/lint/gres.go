package lint

import (
	"errors"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// gpuName is what gres.conf calls GPUs. sharedNames are the names of GPUs that jobs share.
const gpuName = "gpu"

var sharedNames = []string{"shard", "mps"}

// gresFile is one gres.conf.
type gresFile struct {
	*linter
	lines []gresLine      // for GPUs and shared GPUs, and lines with AutoDetect alone
	all   []int32         // indices of the lines for every node
	own   [][]int32       // by node number: indices of the lines that name it
	said  map[saying]bool // by once
	// uncounted says that no node of slurm.conf has gpus in Gres=, and that no other node will come.
	uncounted bool
}

// gresLine is a line of which the nodes are known.
type gresLine struct {
	gres.Line
	forNone bool // it is for no node of slurm.conf
	// odd says that slurmd does not start with the line, or may read it otherwise than it looks: what it
	// gives a node is not judged.
	odd bool
	bad bool // slurmd does not start with the line
}

// givesGPUs reports whether a line lists GPUs, or has slurmd detect them.
func (l gresLine) givesGPUs() bool {
	way := gres.Way(l.AutoDetect)
	return l.Name == gpuName || way != "" && way != gres.AutoDetectOff
}

// lintGres judges gres.conf: its lines for gpus, one by one and then together for
// each node. Fatal means that slurmd does not start on a node that the line is for.
// Nobody can see here whether a device file exists.
func (l *linter) lintGres(f File) {
	lines, found := gres.Scan(f.Name, f.Data)
	if len(found) > 0 && found[0].Reason == syntax.ReasonSyntax { // nodes without a verdict have a file that was not read
		l.about(nil, func() { l.All = append(l.All, found...) })
		return
	}
	if l.GresTypes != nil && len(l.GresTypes) == 0 && len(lines)+len(found) > 0 {
		l.unread = true
		l.Fatal(firstLine(lines), reasonNotRead, "add GresTypes=gpu to slurm.conf", "slurm.conf has no GresTypes: Slurm never opens gres.conf, and its nodes have no GPUs")
		return
	}
	g := &gresFile{linter: l, own: make([][]int32, len(l.known)), said: map[saying]bool{}, uncounted: l.Nodes != nil && !l.gpus && !l.grows()}
	byLine := map[int][]topology.Finding{}
	for _, f := range found {
		if f.Reason == syntax.ReasonUnknownKey { // slurmd refuses the whole file
			l.All = append(l.All, f)
		} else {
			byLine[f.Line] = append(byLine[f.Line], f)
		}
	}
	for i := range lines {
		g.line(gresLine{Line: lines[i]}, byLine[lines[i].Number])
		delete(byLine, lines[i].Number)
	}
	for _, left := range byLine { // of lines that give nothing
		l.All = append(l.All, left...)
	}
	l.gpus = l.gpus || slices.ContainsFunc(g.lines, gresLine.givesGPUs)
	for _, a := range g.groups() {
		g.note(a.names, topology.OK, "")
		g.about(a.names, func() { g.lintNodes(a) })
	}
	g.lintForAll()
}

// line judges one line by itself and notes which nodes it is for. found is what its reader says.
func (g *gresFile) line(l gresLine, found []topology.Finding) {
	switch {
	case l.Name == "" || l.Name == gpuName:
	case strings.EqualFold(l.Name, gpuName):
		g.about(nil, func() { g.NotJudged(l.Number, "lines of Name=%s are not judged: want gpu", l.Name) })
		return
	case !g.isType(l.Name):
		if !g.said[saying{what: l.Name}] {
			g.Warn(l.Number, reasonUnknownGres, "add the name to GresTypes in slurm.conf", "%s is not in GresTypes: slurmd ignores its lines", hostlist.Shorten(l.Name))
		}
		g.said[saying{what: l.Name}] = true
		return
	case !slices.Contains(sharedNames, l.Name): // see OtherGRES
		return
	}
	for _, f := range g.about(nil, func() { g.lintLine(&l, found) }) {
		l.odd = l.odd || f.Severity == topology.Unknown || f.Reason == syntax.ReasonBadValue
		l.bad = l.bad || f.Severity == topology.Fatal
	}
	g.about(nil, func() { g.lintAutoDetect(&l) })
	g.lines = append(g.lines, l)
}

// lintLine judges what a line says of its nodes and devices. found is what its reader says.
func (g *gresFile) lintLine(l *gresLine, found []topology.Finding) {
	index := int32(len(g.lines))
	if l.Nodes == "" {
		g.all = append(g.all, index)
	} else {
		g.lintNodeName(l, index)
	}
	for _, f := range found {
		if l.forNone && f.Severity == topology.Fatal {
			f.Severity = topology.Warning
		}
		g.All = append(g.All, f)
	}
	switch {
	case l.Name != gpuName:
	case g.isType(gpuName):
		g.lintDevicesOf(l)
		g.lintFlags(l)
		g.lintCores(l)
	default:
		g.unread = g.unread || !l.forNone
		g.report(l, reasonUnknownGres, "add gpu to GresTypes in slurm.conf", "gpu is not in GresTypes: slurmd ignores the line, and its nodes have no GPUs")
	}
}

// report adds a finding. It is fatal if the line is for a node of slurm.conf.
func (g *gresFile) report(l *gresLine, reason, remedy, format string, args ...any) {
	if l.forNone {
		g.Warn(l.Number, reason, remedy, format, args...)
		return
	}
	g.Fatal(l.Number, reason, remedy, format, args...)
}

// lintNodeName notes which nodes a line is for. slurmd ignores a line whose list is
// broken.
func (g *gresFile) lintNodeName(l *gresLine, index int32) {
	var nodes []int32
	var unknown []string
	err := hostlist.Walk(l.Nodes, func(name []byte) {
		if n, ok := g.number(name); ok {
			nodes = append(nodes, n)
		} else {
			unknown = append(unknown, string(name))
		}
	})
	switch {
	case errors.Is(err, hostlist.ErrNotPlain):
		g.NotJudged(l.Number, "NodeName: %v", err)
	case err != nil:
		g.Warn(l.Number, syntax.ReasonBadValue, "want such as n[001-018]", "NodeName: %v: slurmd ignores the line", err)
		nodes = nil
	}
	l.forNone = len(nodes) == 0
	for _, n := range nodes {
		for int(n) >= len(g.own) { // named for the first time
			g.own = append(g.own, nil)
		}
		if own := g.own[n]; len(own) == 0 || own[len(own)-1] != index { // once for a node that is named twice
			g.own[n] = append(own, index)
		}
	}
	if len(unknown) > 0 && !g.grows() {
		g.Warn(l.Number, reasonUnknown, "add the nodes to slurm.conf, or take them out", "NodeName has nodes that are not in slurm.conf: %s", hostlist.Shorten(hostlist.Compress(unknown)))
	}
}

// ignoredWay is a value of AutoDetect that slurmd ignores.
const ignoredWay = "unknown"

// lintAutoDetect judges the way of detection of a line. slurmd ignores full before 26.05.
func (g *gresFile) lintAutoDetect(l *gresLine) {
	way := gres.Way(l.AutoDetect)
	switch {
	case l.AutoDetect == "":
	case way == "":
		g.Warn(l.Number, reasonAutoDetect, "want nvidia, nvml or off", "AutoDetect=%s is not known to Slurm, which ignores it", hostlist.Shorten(l.AutoDetect))
	case way == gres.AutoDetectFull && !g.Release.Does(slurmconf.AutoDetectFull):
		g.Warn(l.Number, reasonAutoDetect, "want nvidia or nvml", "AutoDetect=full is not known to Slurm %s, which ignores it", g.Release)
		l.AutoDetect = ignoredWay
	case !gres.IsWay(way):
		g.NotJudged(l.Number, "AutoDetect=%s is not judged: want such as nvidia, nvml or off", hostlist.Shorten(l.AutoDetect))
		l.odd = l.odd || l.Nodes != ""
	}
}

// lintDevicesOf judges the devices that a line gives.
func (g *gresFile) lintDevicesOf(l *gresLine) {
	switch n := l.Devices(); {
	case len(l.Files) > 0 && len(l.MultipleFiles) > 0:
		g.NotJudged(l.Number, "File and MultipleFiles are on one line")
	case len(l.MultipleFiles) == 1:
		g.NotJudged(l.Number, "MultipleFiles has one file: want File for a device of one file")
	case l.Count > 0 && n != l.Count:
		g.report(l, reasonGresLine, "leave Count out if there are files", "Count=%d and %d devices in the files", l.Count, n)
	case l.Links != nil && n > 1:
		g.Warn(l.Number, reasonGresLine, "write one line per device, or leave it out", "Links on a line of several devices counts for each of them")
	}
}

// gresFlags are the flags that choose the variables of a job. The others are not
// judged.
var gresFlags = []string{"nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "opencl_env", "no_gpu_env"}

// lintFlags judges Flags, and puts them into one order and into small letters.
func (g *gresFile) lintFlags(l *gresLine) {
	given := strings.Join(l.Flags, ",")
	words := strings.FieldsFunc(strings.ToLower(given), func(r rune) bool { return r == ',' })
	if slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(gresFlags, w) }) {
		g.NotJudged(l.Number, "Flags=%s: only %s are judged", given, strings.Join(gresFlags, ", "))
		return
	}
	slices.Sort(words)
	l.Flags = slices.Compact(words)
	if len(l.Flags) > 1 && slices.Contains(l.Flags, "no_gpu_env") {
		g.report(l, reasonGresLine, "leave no_gpu_env or the others", "Flags=%s has no_gpu_env beside variables to set", given)
	}
}

// lintCores asks for plain ranges. slurmd binds jobs to other cores than others say,
// or to none.
func (g *gresFile) lintCores(l *gresLine) {
	if _, ok := gres.ParseCPUs(l.Cores); l.Cores != "" && !ok {
		g.NotJudged(l.Number, "Cores=%s: want such as 0-35,72-107", hostlist.Shorten(l.Cores))
	}
}
