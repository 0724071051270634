package lint

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// lineSets tells nodes apart by the lines that name them. Nodes of one set are named
// by the same lines.
type lineSets struct {
	of   []int32 // by node number: its set; numbers beyond the end are of set 0
	sets []lineSet
	next map[[2]int32]int32 // a set and one more line -> the set of both
}

// lineSet is the lines of another set, and one more.
type lineSet struct{ before, record int32 }

func newLineSets(nodes int) lineSets {
	return lineSets{of: make([]int32, nodes), sets: make([]lineSet, 1), next: map[[2]int32]int32{}}
}

// add notes that a line names nodes. A node that it names twice is named once.
func (s *lineSets) add(nodes []int32, record int32) {
	for _, n := range nodes {
		for int(n) >= len(s.of) {
			s.of = append(s.of, 0)
		}
		set := s.of[n]
		if set > 0 && s.sets[set].record == record {
			continue
		}
		key := [2]int32{set, record}
		to, ok := s.next[key]
		if !ok {
			to = int32(len(s.sets))
			s.sets, s.next[key] = append(s.sets, lineSet{set, record}), to
		}
		s.of[n] = to
	}
}

// records returns the indices of a set's lines, in the order of the file.
func (s *lineSets) records(set int32) []int32 {
	var out []int32
	for ; set > 0; set = s.sets[set].before {
		out = append(out, s.sets[set].record)
	}
	slices.Reverse(out)
	return out
}

// nodeGroup is nodes that the same lines of gres.conf are for, and one line of
// slurm.conf.
type nodeGroup struct {
	set   int32
	conf  *Node // nil if slurm.conf is not known or has no such node
	first string
	names []string // of nodes with conf only
	lines []*gresRecord
}

// String returns the names as a host list.
func (a *nodeGroup) String() string { return hostlist.Shorten(hostlist.Compress(a.names)) }

// gpus is how many gpus slurmd takes on such a node.
func (j *gresJudge) gpus(a *nodeGroup) uint64 {
	if j.Nodes == nil {
		return math.MaxUint64
	}
	n := uint64(0)
	if a.conf != nil {
		for _, g := range a.conf.GPUs {
			n += g.Count
		}
	}
	return n
}

// gresJudge judges what all lines together give each node.
type gresJudge struct {
	*gresFile
	said map[saying]bool
	seen map[string]bool // device files of one node
}

// saying is a finding that is made once, however many nodes it is about.
type saying struct {
	severity Severity
	line     int
	rule     string
}

func (j *gresJudge) judge() {
	for _, a := range j.groups() {
		a.lines = j.linesOf(a.set)
		j.lintAutoDetects(a)
		if !j.gpuKnown() {
			continue
		}
		j.lintFlagsTogether(a)
		if gpus := slices.DeleteFunc(slices.Clone(a.lines), func(r *gresRecord) bool { return !r.gpu() }); len(gpus) > 0 {
			j.lintMixed(a, gpus)
			j.lintLinksTogether(a, gpus)
			j.lintDevices(a, gpus)
		}
		j.lintConf(a)
	}
}

// groups returns all nodes, grouped.
func (j *gresJudge) groups() []*nodeGroup {
	type key struct {
		set  int32
		conf *Node
	}
	byKey := map[key]*nodeGroup{}
	add := func(name string, set int32) {
		k := key{set, j.Nodes[name]}
		a := byKey[k]
		if a == nil {
			a = &nodeGroup{set: k.set, conf: k.conf, first: name}
			byKey[k] = a
		}
		a.first = min(a.first, name)
		if k.conf != nil {
			a.names = append(a.names, name)
		}
	}
	if j.open { // any other node
		add("", 0)
	}
	for name, n := range j.known {
		set := int32(0)
		if int(n) < len(j.sets.of) {
			set = j.sets.of[n]
		}
		add(name, set)
	}
	for name := range j.Nodes {
		if _, ok := j.known[name]; !ok {
			add(name, 0)
		}
	}
	out := make([]*nodeGroup, 0, len(byKey))
	for _, a := range byKey {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *nodeGroup) int { return cmp.Or(cmp.Compare(a.set, b.set), cmp.Compare(a.first, b.first)) })
	return out
}

// linesOf returns the lines for the nodes of a set, in the order of the file.
func (j *gresJudge) linesOf(set int32) []*gresRecord {
	indices := append(j.sets.records(set), j.all...)
	slices.Sort(indices)
	lines := make([]*gresRecord, len(indices))
	for i, index := range indices {
		lines[i] = &j.records[index]
	}
	return lines
}

// once adds a finding about nodes unless one of its line and rule is there.
func (j *gresJudge) once(s Severity, a *nodeGroup, line int, rule, advice, message string) {
	if j.said[saying{s, line, rule}] {
		return
	}
	j.said[saying{s, line, rule}] = true
	if a.set > 0 {
		message += " (node " + a.first + ")"
	}
	j.add(s, line, rule, advice, message)
}

// detection returns how the nodes of a set look for devices.
func (j *gresJudge) detection(set int32) string {
	for _, i := range j.sets.records(set) {
		if r := &j.records[i]; r.has(keyAutoDetect) {
			if read := readAutoDetect(j.Release, r.get(keyAutoDetect)); read != "" {
				return read
			}
		}
	}
	return readAutoDetect(j.Release, j.auto)
}

// lintAutoDetects reports a second AutoDetect for a node that differs from the first.
func (j *gresJudge) lintAutoDetects(a *nodeGroup) {
	own := ""
	for _, r := range a.lines {
		if !r.perNode || !r.has(keyAutoDetect) {
			continue
		}
		read := readAutoDetect(j.Release, r.get(keyAutoDetect))
		if own != "" && own != read {
			j.once(Fatal, a, r.Number, "AutoDetectTwice", "leave one of them", fmt.Sprintf("AutoDetect=%s differs from AutoDetect=%s of an earlier line: slurmd does not start", r.get(keyAutoDetect), own))
		}
		if own == "" {
			own = read
		}
	}
	if detects := j.detection(a.set); detects == "" || detects == "off" {
		return
	}
	if i := slices.IndexFunc(a.lines, func(r *gresRecord) bool { return r.gpu() && r.hasFile() }); i >= 0 {
		j.once(Warning, a, a.lines[i].Number, "AutoDetectAndFile", "use either for a node", "the line has File and the node detects its GPUs: Slurm drains the node if they differ")
	}
}

// lintFlagsTogether reports Flags that differ from the line before. slurmd remembers
// the Flags of the last line, for one name at a time.
func (j *gresJudge) lintFlagsTogether(a *nodeGroup) {
	const compared = flagCountOnly | flagExplicit | flagsEnv | flagNoEnv
	var old gresFlag
	name := ""
	for _, r := range a.lines {
		own, set := r.get(keyName), r.has(keyFlags)
		if !r.has(keyName) {
			continue
		}
		if !r.gpu() || r.flags&flagsSharing != 0 { // not judged, and it may be what slurmd remembers
			if set {
				name = ""
			}
			continue
		}
		flags := r.flags & compared
		switch same := own == name; {
		case set && (!j.Release.EnvFlagsOnly() || flags&(flagsEnv|flagNoEnv) != 0):
			if same && old != flags {
				j.once(Fatal, a, r.Number, "FlagsDiffer", "give all lines of gpus the same Flags, or only the first", fmt.Sprintf("Flags=%s differs from an earlier line for %s: slurmd does not start", r.get(keyFlags), own))
			}
			name, old = own, flags
		case !set && same && old != 0:
		default:
			name, old = own, flagDefault
		}
	}
}

// lintMixed reports lines that do not go together.
func (j *gresJudge) lintMixed(a *nodeGroup, group []*gresRecord) {
	first := group[0]
	for i, r := range group {
		switch {
		case r.hasFile() != first.hasFile():
			j.once(Fatal, a, r.Number, "MixedFile", "give every line a File, or none", "some lines for gpu have File and others do not")
		case r.has(keyType) != first.has(keyType):
			j.once(Fatal, a, r.Number, "MixedType", "give every line a Type, or none", "some lines for gpu have Type and others do not")
		case i > 0 && !r.hasFile() && !r.has(keyType):
			j.once(Fatal, a, r.Number, "DuplicateRecord", "join the counts on one line", "a second line for gpu without File and Type")
		}
	}
}

// lintLinksTogether warns of Links that do not go with the number of devices.
func (j *gresJudge) lintLinksTogether(a *nodeGroup, group []*gresRecord) {
	index, total := uint64(0), uint64(0)
	for _, r := range group {
		total += r.count
	}
	for _, r := range group {
		links, ok := r.either(keyLink, keyLinks)
		if ok && r.count == 1 {
			if at := slices.Index(strings.Split(links, ","), "-1"); at >= 0 && uint64(at) != index {
				j.once(Warning, a, r.Number, "Links", "want -1 at the place of the device among those of the node", fmt.Sprintf("Links=%s has -1 at place %d, and the device is number %d", links, at, index))
			}
			if n := uint64(strings.Count(links, ",") + 1); n != total {
				j.once(Warning, a, r.Number, "Links", "want one number per device of the node", fmt.Sprintf("Links=%s has %d numbers for %d devices", links, n, total))
			}
		}
		index += r.count
	}
}

// lintDevices reports a device file that slurmd would take twice. slurmd takes as many
// devices as slurm.conf has, and takes the lines for every node first.
func (j *gresJudge) lintDevices(a *nodeGroup, group []*gresRecord) {
	file, _ := group[0].either(keyFile, keyFiles)
	if len(group) == 1 && strings.IndexByte(file, ',') < 0 {
		return
	}
	left := j.gpus(a)
	clear(j.seen)
	counted := group[0].flags&flagCountOnly != 0
	slices.SortStableFunc(group, allFirst)
	for _, r := range group {
		if file, ok := r.either(keyFile, keyFiles); ok && j.sameCase(r.get(keyName)) {
			if twice, at := j.deviceTwice(file); twice != "" {
				severity, message := Fatal, "slurmd does not start with both"
				if left <= at || counted {
					severity, message = Warning, "slurmd takes one of them"
				}
				j.once(severity, a, r.Number, "DuplicateDevice", "list each device once for a node", fmt.Sprintf("%s is given twice, %s", twice, message))
			}
		}
		left -= min(left, r.count)
	}
}

// deviceTwice notes the devices of a list as seen. It returns the first that was seen
// before, and its place.
func (j *gresJudge) deviceTwice(file string) (twice string, at uint64) {
	i := uint64(0)
	_, _ = j.hosts.Walk(file, func(name []byte) { // lintFiles said what is wrong with the list
		if j.seen[string(name)] && twice == "" {
			twice, at = string(name), i
		}
		j.seen[string(name)] = true
		i++
	})
	return twice, at
}

// allFirst orders lines for every node before lines that name nodes.
func allFirst(a, b *gresRecord) int {
	if a.perNode == b.perNode {
		return 0
	}
	if a.perNode {
		return 1
	}
	return -1
}
