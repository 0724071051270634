package lint

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// nodeGroup is nodes that the same lines of gres.conf are for, and one line of
// slurm.conf.
type nodeGroup struct {
	conf  *Node // nil if slurm.conf is not known or has no such node
	first string
	names []string // of nodes with conf only
	own   bool     // a line names them
	lines []*gresRecord
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
			a = &nodeGroup{conf: k.conf, first: name, own: len(own) > 0, lines: g.linesOf(own)}
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

// linesOf returns the lines for nodes, in the order of the file.
func (g *gresFile) linesOf(own []int32) []*gresRecord {
	indices := slices.Concat(own, g.all)
	slices.Sort(indices)
	lines := make([]*gresRecord, len(indices))
	for i, index := range indices {
		lines[i] = g.records[index]
	}
	return lines
}

// gresJudge judges what all lines together give each node.
type gresJudge struct {
	*gresFile
	said map[saying]bool
}

// lintNodes judges what all lines together give each node of a group.
func (j *gresJudge) lintNodes(a *nodeGroup) {
	if slices.ContainsFunc(a.lines, func(r *gresRecord) bool { return r.odd }) {
		return
	}
	way := j.detection(a)
	if !j.gpuKnown() {
		return
	}
	gpus := slices.DeleteFunc(slices.Clone(a.lines), func(r *gresRecord) bool { return !r.has("name") })
	if i := slices.IndexFunc(gpus, (*gresRecord).hasFile); i >= 0 && way != "" && way != "off" {
		j.once(false, a, gpus[i], "AutoDetectAndFile", "use either for a node", "the line has File and the node detects its GPUs: Slurm drains the node if they differ")
	}
	j.lintFlagsTogether(a, gpus)
	j.lintMixed(a, gpus)
	slices.SortStableFunc(gpus, allFirst)
	j.lintDevices(a, gpus)
	if way == "" || way == "off" {
		j.lintNoFile(a, gpus)
		j.lintConf(a, gpus)
		return
	}
	if way != "nvidia" {
		return
	}
	line := j.autoLine
	if i := slices.IndexFunc(a.lines, func(r *gresRecord) bool { return r.has("autodetect") }); i >= 0 {
		line = a.lines[i].Number
	}
	j.lintFound(a, line)
	if a.conf != nil && a.conf.Cloud {
		j.Warn(line, "AutoDetectCloud", "write lines with File for these nodes", "%s: AutoDetect=%s of nodes with State=CLOUD: slurmctld looks for their devices on its own machine, and logs an error for each node", a, way)
	}
}

// lintNoFile reports gpus without a File on nodes of which nothing else is known. Of nodes of
// slurm.conf lintConf says whether they lack GPUs.
func (j *gresJudge) lintNoFile(a *nodeGroup, gpus []*gresRecord) {
	if j.Nodes != nil {
		return
	}
	for _, r := range gpus {
		if !r.hasFile() {
			j.once(true, a, r, "NoFile", "write File=, or AutoDetect", "the line has no File and its nodes detect no GPUs: slurmd ignores it, and slurmctld drains a node whose Gres= counts them")
		}
	}
}

// allFirst orders lines for every node before lines that name nodes, as slurmd takes
// their devices.
func allFirst(a, b *gresRecord) int {
	switch {
	case a.perNode == b.perNode:
		return 0
	case a.perNode:
		return 1
	}
	return -1
}

// saying is a finding that is made once, however many nodes it is about.
type saying struct {
	fatal  bool
	line   int
	reason string
}

// once adds a finding about nodes unless one of its line and reason is there.
func (j *gresJudge) once(fatal bool, a *nodeGroup, r *gresRecord, reason, remedy, message string) {
	if j.said[saying{fatal, r.Number, reason}] {
		return
	}
	j.said[saying{fatal, r.Number, reason}] = true
	if a.own {
		message += " (node " + a.first + ")"
	}
	if fatal {
		j.Fatal(r.Number, reason, remedy, "%s", message)
	} else {
		j.Warn(r.Number, reason, remedy, "%s", message)
	}
}

// detection returns how nodes look for devices. slurmd does not start with two ways.
func (j *gresJudge) detection(a *nodeGroup) string {
	own := ""
	for _, r := range a.lines {
		way := r.values["autodetect"]
		if own != "" && way != "" && own != way {
			j.once(true, a, r, "AutoDetectTwice", "leave one of them", "AutoDetect differs from AutoDetect="+own+" of an earlier line: slurmd does not start")
		}
		if way != ignoredWay {
			own = cmp.Or(own, way)
		}
	}
	return cmp.Or(own, j.auto)
}

// lintFlagsTogether reports Flags that differ from the line before. A line without Flags
// inherits the Flags of the line before. A first line without Flags sets all variables.
func (j *gresJudge) lintFlagsTogether(a *nodeGroup, gpus []*gresRecord) {
	last := ""
	for _, r := range gpus {
		if r.flags != "" && last != "" && r.flags != last {
			j.once(true, a, r, "FlagsDiffer", "give all lines of gpus the same Flags, or only the first", "Flags="+r.flags+" differs from an earlier line for gpu: slurmd does not start")
		}
		if r.flags != "" || last == "" {
			last = cmp.Or(r.flags, "all variables")
		}
	}
}

// lintMixed reports lines that do not go together.
func (j *gresJudge) lintMixed(a *nodeGroup, gpus []*gresRecord) {
	for i, r := range gpus {
		switch first := gpus[0]; {
		case r.hasFile() != first.hasFile():
			j.once(true, a, r, "MixedFile", "give every line a File, or none", "some lines for gpu have File and others do not")
		case r.has("type") != first.has("type"):
			j.once(true, a, r, "MixedType", "give every line a Type, or none", "some lines for gpu have Type and others do not")
		case i > 0 && !r.hasFile() && !r.has("type"):
			j.once(true, a, r, "DuplicateRecord", "join the counts on one line", "a second line for gpu without File and Type")
		}
	}
}

// lintDevices reports a device file that slurmd would take twice. slurmd takes as many
// devices as slurm.conf has.
func (j *gresJudge) lintDevices(a *nodeGroup, gpus []*gresRecord) {
	place, taken := uint64(0), uint64(math.MaxUint64)
	if j.Nodes != nil {
		taken = 0
		if a.conf != nil {
			for _, c := range a.conf.GPUs {
				taken += c.Count
			}
		}
	}
	devices := map[string]bool{}
	for _, r := range gpus {
		at := place
		_ = hostlist.Walk(r.values["file"], func(name []byte) { // lintFiles said what is wrong with the list
			switch twice := devices[string(name)]; {
			case twice && at < taken:
				j.once(true, a, r, "DuplicateDevice", "list each device once for a node", string(name)+" is given twice, slurmd does not start with both")
			case twice:
				j.once(false, a, r, "DuplicateDevice", "list each device once for a node", string(name)+" is given twice, slurmd takes one of them")
			}
			devices[string(name)] = true
			at++
		})
		place += r.count
	}
}
