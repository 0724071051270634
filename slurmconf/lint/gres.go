package lint

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
)

// gresKeys are the keys that may follow on a line of gres.conf, in lower case, and the
// key that means the same.
var gresKeys = map[string]string{
	"name": "name", "type": "type", "count": "count", "file": "file", "files": "file", "multiplefiles": "multiplefiles",
	"cores": "cores", "cpus": "cores", "links": "links", "link": "links", "flags": "flags", "autodetect": "autodetect",
}

// gresRecord is one line for gpus, or one with AutoDetect for nodes.
type gresRecord struct {
	*syntax.Line
	values  map[string]string // by gresKeys
	perNode bool              // the line begins with NodeName, else with Name
	forNone bool              // it is for no node of slurm.conf
	// odd says that slurmd may read the line otherwise than it looks: what it gives a
	// node is not judged.
	odd   bool
	flags string
	count uint64
}

func (r *gresRecord) has(key string) bool { return r.values[key] != "" }

func (r *gresRecord) hasFile() bool { return r.has("file") || r.has("multiplefiles") }

// gresFile is one gres.conf.
type gresFile struct {
	*linter
	auto     string // AutoDetect for nodes without one of their own
	autoLine int
	records  []*gresRecord
	all      []int32         // indices of the records for every node
	own      [][]int32       // by node number: indices of the records that name it
	skipped  map[string]bool // names that are not judged
}

// lintGres judges gres.conf: its lines for gpus, one by one and then together for
// each node. Fatal means that slurmd does not start on a node that the line is for.
// Nobody can see here whether a device file exists.
func (l *linter) lintGres(f File) {
	lines, err := syntax.Scan(f.Name, f.Data)
	if err != nil {
		l.Fatal(err.Line, slurmconf.ReasonSyntax, "want lines of Key=Value pairs", "%s", err.Message)
		return
	}
	if l.GresTypes != nil && len(l.GresTypes) == 0 && len(lines) > 0 {
		l.Fatal(lines[0].Number, reasonNotRead, "add GresTypes=gpu to slurm.conf", "slurm.conf has no GresTypes: Slurm never opens gres.conf, and its nodes have no GPUs")
		return
	}
	g := &gresFile{linter: l, own: make([][]int32, len(l.known)), skipped: map[string]bool{}}
	for i := range lines {
		g.line(&lines[i])
	}
	l.gpus = l.gpus || len(g.records) > 0 || g.auto != "" && g.auto != "off"
	if !g.gpuKnown() && len(g.records) == 0 {
		g.lintUncounted()
	}
	j := gresJudge{gresFile: g, said: map[saying]bool{}}
	for _, a := range g.groups() {
		j.lintNodes(a)
	}
	g.lintForAll()
}

// lintForAll names nodes of slurm.conf without GPUs that read devices for all nodes. If no node has Gres=,
// slurm.conf does not say which nodes have GPUs.
func (g *gresFile) lintForAll() {
	var with, without []string
	for name, n := range g.Nodes {
		if len(n.GPUs) > 0 {
			with = append(with, name)
		} else {
			without = append(without, name)
		}
	}
	if len(with) == 0 || len(without) == 0 || !g.gpuKnown() {
		return
	}
	for _, index := range g.all {
		r := g.records[index]
		files, err := hostlist.Expand(cmp.Or(r.values["file"], r.values["multiplefiles"]))
		if r.odd || !r.has("name") || err != nil || gres.Listed([]gres.Line{{Name: r.values["name"], Files: files}}).SuitsNode(gres.Registration{}) {
			continue
		}
		g.Warn(r.Number, ReasonForAll, "write NodeName="+hostlist.Compress(with), "the line has no NodeName, so it counts on nodes without Gres= in slurm.conf too: slurmd of %s waits 20 seconds for %s and does not start",
			hostlist.Shorten(hostlist.Compress(without)), files[0])
		return
	}
}

func (g *gresFile) line(c *syntax.Line) {
	r := &gresRecord{Line: c, values: map[string]string{}}
	switch key := strings.ToLower(c.Key); {
	case key == "nodename":
		r.perNode = true
	case key == "name":
		r.values["name"] = c.Value
	case key == "autodetect" && len(c.Attrs) == 0:
		if g.auto != "" {
			g.NotJudged(c.Number, "AutoDetect for every node is given twice")
		}
		g.auto, _ = g.autoDetect(c.Number, c.Value)
		g.autoLine = c.Number
		return
	default:
		g.Fatal(c.Number, slurmconf.ReasonUnknownKey, "want NodeName or Name, or AutoDetect and nothing more", "key %s does not begin such a line", c.Key)
		return
	}
	for _, a := range c.Attrs {
		key, ok := gresKeys[strings.ToLower(a.Key)]
		_, twice := r.values[key]
		switch {
		case !ok:
			g.Fatal(c.Number, slurmconf.ReasonUnknownKey, "want Name, Type, Count, File, MultipleFiles, Cores, Links, Flags, AutoDetect", "key %s is not known after %s", a.Key, c.Key)
		case twice || a.Value == "":
			g.oddLine(r, "key %s is empty or given twice", a.Key)
		}
		r.values[key] = a.Value
	}
	g.record(r)
}

// oddLine says that a line is not judged.
func (g *gresFile) oddLine(r *gresRecord, format string, args ...any) {
	r.odd = true
	g.NotJudged(r.Number, format, args...)
}

// record judges one line by itself and notes which nodes it is for.
func (g *gresFile) record(r *gresRecord) {
	name := r.values["name"]
	if name != "" && name != "gpu" {
		if !g.skipped[name] {
			g.skipped[name] = true
			g.NotJudged(r.Number, "lines of Name=%s are not judged", hostlist.Shorten(name))
		}
		return
	}
	index := int32(len(g.records))
	g.records = append(g.records, r)
	if r.perNode {
		g.lintNodeName(r, index)
	} else {
		g.all = append(g.all, index)
	}
	onlyDetects := len(r.values) == 1 && r.has("autodetect")
	if r.has("autodetect") {
		value := r.values["autodetect"]
		way, known := g.autoDetect(r.Number, value)
		r.values["autodetect"] = cmp.Or(way, ignoredWay)
		if !known || !r.perNode {
			g.oddLine(r, "AutoDetect=%s on this line", hostlist.Shorten(value))
		}
	}
	switch {
	case name == "" && !onlyDetects:
		g.Warn(r.Number, slurmconf.ReasonNoName, "add Name=gpu", "the line has no Name: slurmd ignores its devices")
	case name == "":
	case !g.gpuKnown():
		g.report(r, "UnknownGres", "add gpu to GresTypes in slurm.conf", "gpu is not in GresTypes: slurmd ignores the line, and its nodes have no GPUs")
	default:
		g.lintFiles(r)
		g.lintFlags(r)
		g.lintCount(r)
		g.lintCores(r)
		g.lintLinks(r)
	}
}

// lintNodeName notes which nodes a line is for. slurmd ignores a line whose list is
// broken.
func (g *gresFile) lintNodeName(r *gresRecord, index int32) {
	var nodes []int32
	var unknown []string
	err := hostlist.Walk(r.Value, func(name []byte) {
		if n, ok := g.number(name); ok {
			nodes = append(nodes, n)
		} else {
			unknown = append(unknown, string(name))
		}
	})
	switch {
	case errors.Is(err, hostlist.ErrNotPlain):
		g.oddLine(r, "NodeName: %v", err)
	case err != nil:
		g.Warn(r.Number, reasonHostlist, "want such as n[001-018]", "NodeName: %v: slurmd ignores the line", err)
		nodes = nil
	}
	r.forNone = len(nodes) == 0
	for _, n := range nodes {
		for int(n) >= len(g.own) { // named for the first time
			g.own = append(g.own, nil)
		}
		if own := g.own[n]; len(own) == 0 || own[len(own)-1] != index { // once for a node that is named twice
			g.own[n] = append(own, index)
		}
	}
	if len(unknown) > 0 {
		g.Warn(r.Number, reasonUnknown, "add the nodes to slurm.conf, or take them out", "NodeName has nodes that are not in slurm.conf: %s", hostlist.Shorten(hostlist.Compress(unknown)))
	}
}

// gpuKnown reports whether slurm.conf's GresTypes has gpu.
func (g *gresFile) gpuKnown() bool {
	return g.GresTypes == nil || slices.ContainsFunc(g.GresTypes, func(t string) bool { return strings.EqualFold(t, "gpu") })
}

// lintUncounted names nodes whose Gres= counts gpus in vain.
func (g *gresFile) lintUncounted() {
	var names []string
	for name, n := range g.Nodes {
		if len(n.GPUs) > 0 {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		g.Fatal(1, "UnknownGres", "add gpu to GresTypes in slurm.conf", "%s: gpu is not in GresTypes: Slurm ignores Gres= of these nodes, and they have no GPUs", hostlist.Shorten(hostlist.Compress(names)))
	}
}

// report adds a finding. It is fatal if the line is for a node of slurm.conf.
func (g *gresFile) report(r *gresRecord, reason, remedy, format string, args ...any) {
	if r.forNone {
		g.Warn(r.Number, reason, remedy, format, args...)
		return
	}
	g.Fatal(r.Number, reason, remedy, format, args...)
}

// detectors are the ways of detection that slurmd looks for in a value of AutoDetect.
var detectors = []string{"full", "nvml", "rsmi", "oneapi", "nrt", "nvidia", "off"}

// ignoredWay stands for a value of a line that slurmd ignores, but for a value before it.
const ignoredWay = "?"

// autoDetect reads a way of detection, and reports whether it is judged. slurmd ignores
// a value that has none of the words in it, and full before 26.05.
func (g *gresFile) autoDetect(line int, value string) (way string, known bool) {
	way = strings.ToLower(value)
	switch {
	case way == "full" && !g.Release.AutoDetectFull():
		g.Warn(line, "AutoDetect", "want nvidia or nvml", "AutoDetect=full is not known to Slurm %s, which ignores it", g.Release)
		return "", true
	case slices.Contains(detectors, way):
		return way, true
	case !slices.ContainsFunc(detectors, func(d string) bool { return strings.Contains(way, d) }):
		g.Warn(line, "AutoDetect", "want nvidia, nvml or off", "AutoDetect=%s is not known to Slurm, which ignores it", hostlist.Shorten(value))
		return "", true
	}
	g.NotJudged(line, "AutoDetect=%s is not judged: want such as nvidia, nvml or off", value)
	return way, false
}
