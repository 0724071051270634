package slurmconf

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// gresClasses tells nodes apart by the lines that name them: each line splits
// the classes that it takes nodes from.
type gresClasses struct {
	of   []int32 // by node number: its class; numbers beyond are of class 0
	list []gresClass
	take func(name []byte) // calls node

	// Of the line that is being read: its index, the first of its classes, these
	// by the class that they come from and the last of them once more.
	index, first       int32
	to                 map[int32]int32
	last, lastTo       int32
	named              bool
	unknown, functions []string
}

// gresClass is the nodes that the same lines name.
type gresClass struct {
	nodes   int
	node    int32   // the number of one of them; -1 for those that no line names
	records []int32 // the lines' indices
	gpus    int     // the most that slurm.conf gives one of them
}

func (c *gresClasses) init(l *linter) {
	c.of = make([]int32, len(l.known))
	c.list = []gresClass{{node: -1, nodes: len(l.known)}}
	if l.open {
		c.list[0].nodes = math.MaxInt32 // names that are not in the file
	}
	c.to = make(map[int32]int32)
	c.take = func(name []byte) { c.node(l, name) }
}

// add moves the nodes of a line into classes of their own.
func (c *gresClasses) add(g *gresLinter, index int32) {
	r := &g.records[index]
	clear(c.to)
	c.index, c.first, c.last, c.lastTo = index, int32(len(c.list)), -1, -1
	c.named, c.unknown, c.functions = false, c.unknown[:0], c.functions[:0]
	odd, err := g.hosts.Walk(r.value, c.take)
	if err != nil {
		c.undo()
		g.warn(r.line, "BrokenHostlist", "want such as n[001-018]", fmt.Sprintf("NodeName: %v: slurmd ignores the line", err))
	}
	if err != nil || !c.named {
		r.severity = Warning
	}
	g.lintOdd(r.line, "NodeName", odd)
	if len(c.functions) > 0 {
		g.warn(r.line, "HostlistFunction", "list the nodes themselves", fmt.Sprintf("NodeName: %s has no nodes here", hostlist.Shorten(strings.Join(c.functions, ","))))
	}
	if len(c.unknown) > 0 {
		g.warn(r.line, "UnknownNode", "add the nodes to slurm.conf, or take them out", "not in slurm.conf: "+hostlist.Shorten(hostlist.Compress(c.unknown)))
	}
}

// node moves one node of the line.
func (c *gresClasses) node(l *linter, name []byte) {
	if bytes.IndexByte(name, '{') >= 0 {
		c.functions = append(c.functions, string(name))
		return
	}
	n, ok := l.number(name)
	if !ok {
		c.unknown = append(c.unknown, string(name))
		return
	}
	c.named = true
	for int(n) >= len(c.of) {
		c.of = append(c.of, 0)
	}
	from := c.of[n]
	if from >= c.first {
		return // named twice
	}
	if from != c.last {
		c.last, c.lastTo = from, c.split(from, n)
	}
	c.of[n] = c.lastTo
	c.list[from].nodes--
	c.list[c.lastTo].nodes++
}

// split returns the class for nodes of a class that a line names.
func (c *gresClasses) split(from, node int32) int32 {
	if to, ok := c.to[from]; ok {
		return to
	}
	to := int32(len(c.list))
	c.to[from] = to
	records := c.list[from].records
	c.list = append(c.list, gresClass{node: node, records: append(records[:len(records):len(records)], c.index)})
	return to
}

// undo gives the nodes that the line took back.
func (c *gresClasses) undo() {
	back := make(map[int32]int32, len(c.to))
	for from, to := range c.to {
		back[to] = from
		c.list[from].nodes += c.list[to].nodes
	}
	for n, class := range c.of {
		if class >= c.first {
			c.of[n] = back[class]
		}
	}
	c.list = c.list[:c.first]
}

// judgeNodes judges what all lines together give each node.
func (g *gresLinter) judgeNodes() {
	g.gpuCounts()
	var lines []*gresRecord
	for i := range g.classes.list {
		if class := &g.classes.list[i]; class.nodes > 0 {
			lines = g.linesOf(lines[:0], class)
			g.lintAutoDetects(class, lines)
			g.lintFlagsTogether(class, lines)
			g.lintGroups(class, lines)
		}
	}
}

// linesOf appends the lines for the nodes of a class, in the order of the file.
func (g *gresLinter) linesOf(lines []*gresRecord, class *gresClass) []*gresRecord {
	all, own := g.all, class.records
	for len(all)+len(own) > 0 {
		next := &own
		if len(own) == 0 || len(all) > 0 && all[0] < own[0] {
			next = &all
		}
		lines = append(lines, &g.records[(*next)[0]])
		*next = (*next)[1:]
	}
	return lines
}

// once adds a finding about nodes unless one of its line and rule is there.
func (g *gresLinter) once(s Severity, class *gresClass, line int, rule, advice, message string) {
	if g.said[saying{s, line, rule}] {
		return
	}
	g.said[saying{s, line, rule}] = true
	for name, n := range g.known {
		if n == class.node {
			message += " (node " + name + ")"
		}
	}
	g.add(s, line, rule, advice, message)
}

// detection returns how the nodes of a class look for devices.
func (g *gresLinter) detection(class *gresClass) string {
	for _, i := range class.records {
		if r := &g.records[i]; r.has(keyAutoDetect) {
			if read := g.Release.readAutoDetect(r.get(keyAutoDetect)); read != "" {
				return read
			}
		}
	}
	return g.Release.readAutoDetect(g.auto)
}

// lintAutoDetects reports a second AutoDetect for a node that is not the first.
func (g *gresLinter) lintAutoDetects(class *gresClass, lines []*gresRecord) {
	own := ""
	for _, r := range lines {
		if !r.perNode || !r.has(keyAutoDetect) {
			continue
		}
		read := g.Release.readAutoDetect(r.get(keyAutoDetect))
		if own != "" && own != read {
			g.once(Fatal, class, r.line, "AutoDetectTwice", "leave one of them", fmt.Sprintf("AutoDetect=%s after another AutoDetect=%s", r.get(keyAutoDetect), own))
		}
		if own == "" {
			own = read
		}
	}
	if detects := g.detection(class); detects == "" || detects == "off" {
		return
	}
	if i := slices.IndexFunc(lines, func(r *gresRecord) bool { return r.has(keyName) && r.hasFile() }); i >= 0 {
		g.once(Warning, class, lines[i].line, "AutoDetectAndFile", "use either for a node", "File beside AutoDetect: a difference drains the node")
	}
}

// lintFlagsTogether reports Flags that are not those of the line before. slurmd
// remembers the last ones, for one name at a time.
func (g *gresLinter) lintFlagsTogether(class *gresClass, lines []*gresRecord) {
	const compared = flagCountOnly | flagExplicit | flagOneSharing | flagsEnv | flagNoEnv
	var was gresFlag
	name := ""
	for _, r := range lines {
		own := r.get(keyName)
		if !r.has(keyName) {
			continue
		}
		flags := r.flags & compared
		if own == "mps" && r.flags&flagAllSharing == 0 {
			flags |= flagOneSharing
		}
		switch same := own == name; {
		case r.has(keyFlags) && (!g.Release.EnvFlagsOnly() || flags&(flagsEnv|flagNoEnv) != 0):
			if same && name != "" && was != flags {
				g.once(Fatal, class, r.line, "FlagsDiffer", "give all lines of one Name the same Flags, or only the first", fmt.Sprintf("Flags=%s after another line for %s with others, or none", r.get(keyFlags), own))
			}
			name, was = own, flags
		case !r.has(keyFlags) && same && was != 0:
		case strings.EqualFold(own, "gpu"):
			name, was = own, flagDefault
		}
	}
}

// lintGroups judges the lines of each name together.
func (g *gresLinter) lintGroups(class *gresClass, lines []*gresRecord) {
	var group []*gresRecord
	for i, r := range lines {
		same := func(o *gresRecord) bool {
			return o.has(keyName) && strings.EqualFold(o.get(keyName), r.get(keyName))
		}
		if !same(r) || !g.knownGres(r.get(keyName)) || slices.ContainsFunc(lines[:i], same) {
			continue
		}
		group = group[:0]
		for _, o := range lines[i:] {
			if same(o) {
				group = append(group, o)
			}
		}
		g.lintMixed(class, group)
		g.lintDevices(class, group)
	}
}

// lintMixed reports lines of one name that do not go together.
func (g *gresLinter) lintMixed(class *gresClass, group []*gresRecord) {
	first := group[0]
	name := first.get(keyName)
	total := uint64(0)
	for i, r := range group {
		total += r.count
		switch {
		case r.hasFile() != first.hasFile():
			g.once(Fatal, class, r.line, "MixedFile", "give every line a File, or none", fmt.Sprintf("some lines for %s have File and others do not", name))
		case r.has(keyType) != first.has(keyType):
			g.once(Fatal, class, r.line, "MixedType", "give every line a Type, or none", fmt.Sprintf("some lines for %s have Type and others do not", name))
		case i > 0 && !r.hasFile() && !r.has(keyType):
			g.once(Fatal, class, r.line, "DuplicateRecord", "join the counts on one line", fmt.Sprintf("a second line for %s without File and Type", name))
		}
	}
	index := uint64(0)
	for _, r := range group {
		links, ok := r.either(keyLink, keyLinks)
		if at := slices.Index(strings.Split(links, ","), "-1"); ok && r.count == 1 && at >= 0 && uint64(at) != index {
			g.once(Warning, class, r.line, "Links", "want -1 at the place that the device has among those of the node", fmt.Sprintf("Links=%s has -1 at place %d, and the device is number %d", links, at, index))
		}
		index += r.count
		if n := uint64(strings.Count(links, ",") + 1); ok && r.count == 1 && n != total {
			g.once(Warning, class, r.line, "Links", "want one number per device of the node", fmt.Sprintf("Links=%s has %d numbers for %d devices", links, n, total))
		}
	}
}

// lintDevices reports a device file that slurmd would take twice. It takes as
// many devices as slurm.conf has, those for every node first.
func (g *gresLinter) lintDevices(class *gresClass, group []*gresRecord) {
	file, _ := group[0].either(keyFile, keyFiles)
	if len(group) == 1 && strings.IndexByte(file, ',') < 0 || group[0].shared() {
		return
	}
	left := uint64(math.MaxUint64)
	if g.NodeGPUs != nil && strings.EqualFold(group[0].get(keyName), "gpu") {
		left = uint64(max(class.gpus, 0))
	}
	clear(g.seen)
	group = slices.Clone(group)
	slices.SortStableFunc(group, func(a, b *gresRecord) int { return allFirst(a) - allFirst(b) })
	for _, r := range group {
		if file, ok := r.either(keyFile, keyFiles); ok && g.sameCase(r.get(keyName)) {
			if twice, at := g.deviceTwice(file); twice != "" {
				severity, message := Fatal, "slurmd does not start with both"
				if left <= at || group[0].flags&flagCountOnly != 0 {
					severity, message = Warning, "slurmd takes one of them"
				}
				g.once(severity, class, r.line, "DuplicateDevice", "list each device once for a node", fmt.Sprintf("%s is given twice, %s", twice, message))
			}
		}
		left -= min(left, r.count)
	}
}

// deviceTwice notes the devices of a list as seen, and returns the first that
// was and its place.
func (g *gresLinter) deviceTwice(file string) (twice string, at uint64) {
	i := uint64(0)
	_, _ = g.hosts.Walk(file, func(name []byte) { // what is wrong with it was said before
		if g.seen[string(name)] && twice == "" {
			twice, at = string(name), i
		}
		g.seen[string(name)] = true
		i++
	})
	return twice, at
}

// allFirst orders lines for every node before those that name nodes.
func allFirst(r *gresRecord) int {
	if r.perNode {
		return 1
	}
	return 0
}

// gpuCounts compares with slurm.conf's Gres=.
func (g *gresLinter) gpuCounts() {
	if g.NodeGPUs == nil {
		return
	}
	have := make([]uint64, len(g.classes.list))
	last := make([]int, len(have))
	var lines []*gresRecord
	for i := range have {
		class := &g.classes.list[i]
		if d := g.detection(class); d != "" && d != "off" {
			have[i] = math.MaxUint64
			continue
		}
		lines = g.linesOf(lines[:0], class)
		for _, r := range lines {
			if strings.EqualFold(r.get(keyName), "gpu") {
				have[i] += r.count
				last[i] = r.line
			}
		}
	}
	var fewer []string
	line := 1
	for node, want := range g.NodeGPUs {
		i := int32(0)
		if n, ok := g.known[node]; ok && int(n) < len(g.classes.of) {
			i = g.classes.of[n]
		}
		class := &g.classes.list[i]
		class.gpus = max(class.gpus, want)
		if want > 0 && have[i] < uint64(want) {
			fewer, line = append(fewer, node), max(line, last[i])
		}
	}
	if len(fewer) > 0 {
		g.warn(line, "FewerGPUs", "add the devices, or lower Gres= in slurm.conf", fmt.Sprintf("%s have fewer gpus here than in slurm.conf: slurmctld drains them", hostlist.Shorten(hostlist.Compress(fewer))))
	}
}
