package gres

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// nvidiaGPUFlag makes Slurm set the variables of NVIDIA GPUs only.
const nvidiaGPUFlag = "nvidia_gpu_env"

// The reasons of problems with lines in gres.conf.
const (
	ReasonNoGresLine = "NoGresLine"
	ReasonLine       = "GresLine"
	ReasonAutoDetect = "AutoDetect"
	ReasonFewerGPUs  = "FewerGPUs"
)

// FromFacts returns the gres.conf lines of every node that has GPUs. published
// has the lines of the file in use, as ByNode gives them. A node that reports
// nothing now, or that has lost a GPU, keeps its published lines. A node with other
// hardware does not. A node that only labels describe detects its GPUs by itself,
// unless its ResourceSlices list them. A node that is not in facts has no line.
func FromFacts(facts []topology.Facts, published map[string][]Line, o Options) ([]Line, []topology.Finding) {
	var problems []topology.Finding
	groups := newGroups(o)
	for i := range facts {
		f, old, wrong, unknown := o.leaveOut(facts[i].Listed(), published[facts[i].SlurmName])
		problems = append(problems, wrong...)
		var group *nodeGroup
		if unknown != "" {
			group = groups.with(nil)
		} else {
			group, unknown = groups.of(f)
		}
		if f.Report != nil && facts[i].Report == nil { // devices of ResourceSlices do not stand for a report
			f = &facts[i]
		}
		keep := len(old) > 0 && !f.Shared && o.keeps(f, group.lines, old, unknown != "")
		if p, ok := problemOf(f, group.lines, old, unknown, keep); ok {
			problems = append(problems, p)
		}
		if keep {
			group = groups.with(old)
		}
		group.nodes = append(group.nodes, f.SlurmName)
	}
	problems = slices.Compact(problems) // a node of several names has one problem
	return groups.lines(), append(problems, o.unknownNodes(facts)...)
}

// problemOf says what is wrong with a node's GPUs. lines are what its facts give now,
// old what is published. What it says is true of a gres.conf that lists devices, and of
// AutoDetect for all nodes.
func problemOf(f *topology.Facts, lines, old []Line, unknown string, keep bool) (topology.Finding, bool) {
	p := topology.Finding{Subject: topology.Subject{Node: f.Name}, Reason: ReasonNoGresLine}
	switch {
	case unknown != "" && keep:
		p.Message = unknown + "; its GPUs stay as published"
	case unknown != "":
		p.Message = unknown + "; without a line, or AutoDetect, slurmctld drains a node that has GPUs in slurm.conf"
	case keep && f.Report != nil && devices(old) > devices(lines):
		p.Reason = topology.ReasonGPUMissing
		p.Message = fmt.Sprintf("reports %d GPU devices, %d before; gres.conf stays as it is, because slurmctld drains a node with fewer GPUs than Gres= has", devices(lines), devices(old))
	default:
		return topology.Finding{}, false
	}
	return p, true
}

// nodeGroups gathers nodes whose lines are alike.
type nodeGroups struct {
	Options
	bySignature, byText map[string]*nodeGroup
	groups              []*nodeGroup
	buf                 []byte
	near                bool // signatures have what Found goes by
}

type nodeGroup struct {
	lines []Line
	nodes []string
}

func newGroups(o Options) *nodeGroups {
	return &nodeGroups{Options: o, bySignature: map[string]*nodeGroup{}, byText: map[string]*nodeGroup{}}
}

// of returns the group that a node belongs to by its facts. If a fact is unknown, the
// group has no lines and unknown names the fact. The lines of nodes with one signature
// are made once.
func (g *nodeGroups) of(f *topology.Facts) (group *nodeGroup, unknown string) {
	whole := g.sign(f)
	if group = g.bySignature[string(g.buf)]; whole && group != nil {
		return group, ""
	}
	lines, unknown := g.linesOf(f)
	group = g.with(lines)
	if whole && unknown == "" {
		g.bySignature[string(g.buf)] = group
	}
	return group, unknown
}

// with returns the group that has the lines.
func (g *nodeGroups) with(lines []Line) *nodeGroup {
	var b strings.Builder
	for _, l := range lines {
		l.Nodes = ""
		l.write(&b)
	}
	group, ok := g.byText[b.String()]
	if !ok {
		group = &nodeGroup{lines: lines}
		g.byText[b.String()], g.groups = group, append(g.groups, group)
	}
	return group
}

// lines returns the lines of all groups, each group at the place of its first node in
// Slurm's order.
func (g *nodeGroups) lines() []Line {
	byFirst := make(map[string][]Line, len(g.groups))
	for _, group := range g.groups {
		list := hostlist.Compress(group.nodes)
		if list == "" { // a line without names is for all nodes
			continue
		}
		first := slices.MinFunc(group.nodes, hostlist.Compare)
		for _, l := range group.lines {
			l.Nodes = list
			byFirst[first] = append(byFirst[first], l)
		}
	}
	var out []Line
	for _, first := range slices.SortedFunc(maps.Keys(byFirst), hostlist.Compare) {
		out = append(out, byFirst[first]...)
	}
	return out
}

// sign writes a text that only nodes with the same lines share. It returns false if
// the node's lines depend on more than the text holds.
func (g *nodeGroups) sign(f *topology.Facts) bool {
	g.buf = append(g.buf[:0], "labels"...)
	if f.Report == nil || f.Shared {
		return f.GPUCount() > 0 && g.AutoDetect == "" && !f.HasMIG()
	}
	if len(g.LeaveOut[f.Name]) > 0 {
		return false
	}
	g.buf = g.buf[:0]
	for i := range f.Report.GPUs {
		gpu := &f.Report.GPUs[i]
		direct := gpu.Links != nil && len(gpu.Links.GPUs) > 0
		if gpu.Minor == nil || len(gpu.MIG) > 0 || gpu.MIGEmpty || direct {
			return false
		}
		g.buf = strconv.AppendInt(append(append(g.buf, gpu.Product...), '/'), int64(*gpu.Minor), 10)
		if g.Cores || g.near {
			g.buf = append(append(g.buf, '@'), gpu.CPUAffinity...)
		}
		g.buf = append(g.buf, '\n')
	}
	if g.Cores || g.near {
		for _, s := range f.Report.Sockets {
			g.buf = strconv.AppendInt(append(append(g.buf, s.CPUs...), '/'), int64(s.Cores), 10)
			g.buf = append(g.buf, '\n')
		}
	}
	return true
}

// ByNode returns the lines that a gres.conf holds for each node. A line without NodeName
// is for each node of all. Names of lines that were made, or that Parse returned, can be read.
func ByNode(lines []Line, all []string) map[string][]Line {
	out := map[string][]Line{}
	for _, l := range lines {
		nodes := all
		if l.Nodes != "" {
			nodes, _ = hostlist.Expand(l.Nodes)
		}
		l.Nodes = ""
		for _, n := range nodes {
			out[n] = append(out[n], l)
		}
	}
	return out
}

// ByName returns lines with the names of their nodes. Nodes whose lines are alike share one set of lines.
func ByName(lines map[string][]Line) []Line {
	groups := newGroups(Options{})
	for _, node := range slices.Sorted(maps.Keys(lines)) {
		group := groups.with(lines[node])
		group.nodes = append(group.nodes, node)
	}
	return groups.lines()
}

// linesOf returns the node's own lines. If too little is known, it returns no line and
// says what is unknown, because slurmd does not start with a line that names a
// missing file.
func (o *Options) linesOf(f *topology.Facts) (lines []Line, unknown string) {
	if f.GPUCount() == 0 {
		return nil, ""
	}
	if way, unknown := o.detects(f); way != "" || unknown != "" {
		if unknown != "" {
			return nil, unknown
		}
		return []Line{{AutoDetect: way}}, ""
	}
	found := f.Report.GRESDevicesBy(o.TypeOf)
	if len(found) == 0 {
		return nil, "its report has MIG on in all GPUs and no instance"
	}
	gpus := make([]topology.GPU, len(found))
	for i, d := range found {
		gpus[i] = *d.GPU
	}
	var cores []string
	if o.Cores {
		cores = coresOf(shapeOf(f.Report.Sockets), gpus)
	}
	links := linksOf(gpus)
	for i, d := range found {
		line := Line{Name: "gpu", Flags: []string{nvidiaGPUFlag}}
		if cores != nil {
			line.Cores = cores[i]
		}
		if links != nil {
			line.Links = links[i]
		}
		if unknown := o.device(&line, d); unknown != "" {
			return nil, unknown
		}
		if err := line.check(); err != nil {
			return nil, fmt.Sprintf("no line can be written for GPU %s: %v", d.GPU.UUID, err)
		}
		lines = addDevice(lines, line)
	}
	return lines, ""
}

// device gives a line its Type and files, or says what is unknown of them.
func (o *Options) device(line *Line, d topology.GRESDevice) (unknown string) {
	g := d.GPU
	switch {
	case g.Minor == nil:
		return fmt.Sprintf("its report has no minor number of GPU %s, which names the device file", g.UUID)
	case g.Product == "":
		return fmt.Sprintf("its report has no product of GPU %s, which names its Type", g.UUID)
	case d.MIG == nil:
		line.Type, line.Files = o.TypeOf(g.Product), []string{deviceFile(*g.Minor)}
	case len(d.MIG.Capabilities) == 0:
		return fmt.Sprintf("its report has no capability files of MIG instance %s of GPU %s", d.MIG.UUID, g.UUID)
	default:
		line.Type, line.MultipleFiles = o.migTypeOf(g.Product, d.MIG.Profile), append([]string{deviceFile(*g.Minor)}, d.MIG.Capabilities...)
	}
	return ""
}

// detects returns how a node with GPUs detects them. way is empty if its devices are
// listed. unknown says why the node can do neither.
func (o *Options) detects(f *topology.Facts) (way, unknown string) {
	switch mig := f.HasMIG(); {
	case f.Shared && len(o.LeaveOut[f.Name]) > 0:
		return "", "several worker pods share its GPUs, and gres.leaveOut names GPUs of it"
	case o.AutoDetect == AutoDetectOff && f.Shared:
		return "", "several worker pods share its GPUs, and AutoDetect is off"
	case f.Shared && mig && o.AutoDetect != AutoDetectNVML:
		return "", "several worker pods share its GPUs, and " + unseenMIG + ": set gres.autoDetect: nvml"
	case f.Shared:
		return cmp.Or(o.AutoDetect, AutoDetectNvidia), ""
	case o.AutoDetect == AutoDetectOff && f.Report == nil:
		return "", "it has no report, and AutoDetect is off"
	case f.Report == nil && mig && (o.AutoDetect == "" || o.AutoDetect == AutoDetectNvidia):
		return "", "its labels say that " + unseenMIG + ": set gres.autoDetect: nvml, or let its agent report"
	case o.AutoDetect == AutoDetectOff || o.AutoDetect == AutoDetectNvidia && mig || len(o.LeaveOut[f.Name]) > 0:
		return "", ""
	case o.AutoDetect == "" && f.Report == nil:
		return AutoDetectNvidia, ""
	}
	return o.AutoDetect, ""
}

// addDevice appends a line of one device. If the line differs from the last line in
// its file only, the file joins the last line. A line with Links or MultipleFiles is
// for one device.
func addDevice(lines []Line, one Line) []Line {
	if n := len(lines); n > 0 && lines[n-1].Type == one.Type && lines[n-1].Cores == one.Cores && len(lines[n-1].Files) > 0 && len(one.Files) > 0 && one.Links == nil {
		lines[n-1].Files = append(lines[n-1].Files, one.Files...)
		return lines
	}
	return append(lines, one)
}

const deviceFiles = "/dev/nvidia"

func deviceFile(minor int) string { return deviceFiles + strconv.Itoa(minor) }
