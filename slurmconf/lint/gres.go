package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// gresKey is a key that may follow on a line of gres.conf.
type gresKey int

const (
	keyName gresKey = iota
	keyType
	keyCount
	keyFile
	keyFiles
	keyMultipleFiles
	keyCores
	keyCPUs
	keyLink
	keyLinks
	keyFlags
	keyAutoDetect
	keyNumber
)

// gresKeyWords are the keys in lower case. File and Files mean the same, as do Cores
// and CPUs, Link and Links: if a line has both, the first of the pair counts.
var gresKeyWords = [keyNumber]string{"name", "type", "count", "file", "files", "multiplefiles", "cores", "cpus", "link", "links", "flags", "autodetect"}

const gresKeys = "Name, Type, Count, File, MultipleFiles, Cores, Links, Flags, AutoDetect"

// gresRecord is one line as slurmd reads it: of each key the last value.
type gresRecord struct {
	*slurmconf.Line
	at       [keyNumber]int32 // 1 + the place of each key among Attrs; 0 if it is not given
	perNode  bool             // the line begins with NodeName, else with Name
	flags    gresFlag
	count    uint64
	severity Severity // Warning if the line is for no node of slurm.conf
}

func (r *gresRecord) has(key gresKey) bool {
	return r.at[key] > 0 || key == keyName && !r.perNode
}

func (r *gresRecord) get(key gresKey) string {
	switch {
	case key == keyName && !r.perNode:
		return r.Value
	case r.at[key] == 0:
		return ""
	}
	return r.Attrs[r.at[key]-1].Value
}

// either returns the value of the first of two keys that is given.
func (r *gresRecord) either(a, b gresKey) (string, bool) {
	if r.has(a) {
		return r.get(a), true
	}
	return r.get(b), r.has(b)
}

func (r *gresRecord) hasFile() bool {
	return r.has(keyFile) || r.has(keyFiles) || r.has(keyMultipleFiles)
}

// gpu reports whether the line is for gpus, in whatever case.
func (r *gresRecord) gpu() bool { return strings.EqualFold(r.get(keyName), "gpu") }

// gresFile is one gres.conf, with what each line says by itself.
type gresFile struct {
	*linter
	auto    string // AutoDetect for nodes without one of their own
	records []gresRecord
	all     []int32 // indices of the records for every node
	sets    lineSets
	skipped map[string]bool // names that are not judged
}

// lintGres judges gres.conf: its lines for gpus, one by one and then together for
// each node. Fatal means that slurmd does not start on a node that the line is for.
// Nobody can see here whether a device file exists.
func (l *linter) lintGres(f File) {
	l.file = f.Name
	lines, err := slurmconf.Scan(f.Name, f.Data, l.include)
	if err != nil {
		l.fatal(err.Line, ruleSyntax, "want lines of Key=Value pairs", err.Message)
	}
	g := &gresFile{linter: l, records: make([]gresRecord, 0, len(lines)), sets: newLineSets(len(l.known)), skipped: map[string]bool{}}
	for i := range lines {
		g.line(&lines[i])
	}
	j := gresJudge{gresFile: g, said: make(map[saying]bool), seen: make(map[string]bool)}
	j.judge()
}

func (g *gresFile) line(c *slurmconf.Line) {
	r := gresRecord{Line: c, severity: Fatal}
	switch strings.ToLower(c.Key) {
	case "nodename":
		r.perNode = true
	case "name":
	case "autodetect":
		g.autoDetectLine(c)
		return
	default:
		g.fatal(c.Number, ruleUnknownKey, "want NodeName, Name or AutoDetect", fmt.Sprintf("key %s does not begin a line", c.Key))
		return
	}
	for i, a := range c.Attrs {
		key := gresKey(slices.Index(gresKeyWords[:], strings.ToLower(a.Key)))
		switch {
		case key < 0:
			g.fatal(c.Number, ruleUnknownKey, "want "+gresKeys, fmt.Sprintf("key %s is not known after %s", a.Key, c.Key))
			continue
		case key == keyName && !r.perNode:
			g.warn(c.Number, ruleKeyTwice, "leave one of them", "Name is given twice on one line, the first one counts")
		case r.has(key):
			g.warn(c.Number, ruleKeyTwice, "leave one of them", fmt.Sprintf("%s is given twice on one line, the last one counts", a.Key))
		}
		r.at[key] = int32(i + 1)
	}
	g.records = append(g.records, r)
	g.record(int32(len(g.records) - 1))
}

// autoDetectLine judges AutoDetect on a line of its own.
func (g *gresFile) autoDetectLine(c *slurmconf.Line) {
	if g.auto != "" {
		g.warn(c.Number, ruleKeyTwice, "leave one of them", "AutoDetect for every node is given twice, the last one counts")
	}
	g.auto = c.Value
	g.autoDetect(c.Number, c.Value)
	if len(c.Attrs) > 0 {
		g.fatal(c.Number, ruleUnknownKey, "begin the line with NodeName= or Name=", fmt.Sprintf("key %s is not known after AutoDetect", c.Attrs[0].Key))
	}
}

// record judges one line by itself and notes which nodes it is for.
func (g *gresFile) record(index int32) {
	r := &g.records[index]
	if r.perNode {
		g.lintNodeName(r, index)
	} else {
		g.all = append(g.all, index)
	}
	if r.has(keyAutoDetect) {
		g.autoDetect(r.Number, r.get(keyAutoDetect))
		if !r.perNode {
			g.warn(r.Number, "AutoDetect", "add NodeName=, or put AutoDetect on a line of its own", "AutoDetect on a line without NodeName has no effect")
		}
	}
	name := r.get(keyName)
	switch {
	case !r.has(keyName):
		others := r.at
		others[keyAutoDetect] = 0
		if !r.has(keyAutoDetect) || others != [keyNumber]int32{} {
			g.warn(r.Number, ruleNoName, "add Name=gpu", "the line has no Name: slurmd ignores its devices")
		}
		return
	case !r.gpu():
		if !g.skipped[name] {
			g.skipped[name] = true
			g.notJudged(r.Number, fmt.Sprintf("lines of Name=%s are not judged", hostlist.Shorten(name)))
		}
		return
	case !g.gpuKnown():
		g.warn(r.Number, "UnknownGres", "add gpu to GresTypes in slurm.conf", fmt.Sprintf("Name=%s is not in GresTypes: slurmd ignores the line", name))
	case !g.sameCase(name):
		g.warn(r.Number, "GresCase", "write it as in GresTypes", fmt.Sprintf("Name=%s differs from GresTypes in case: slurmd does not use its files", name))
	}
	g.lintFiles(r)
	g.lintFlags(r)
	g.lintCount(r)
	g.lintCores(r)
	g.lintLinks(r)
}

// lintNodeName notes which nodes a line is for. slurmd ignores a line whose list is
// broken.
func (g *gresFile) lintNodeName(r *gresRecord, index int32) {
	var numbers []int32
	var unknown []string
	function := ""
	odd, err := g.hosts.Walk(r.Value, func(name []byte) {
		if isFunction(name) {
			function = string(name)
		} else if n, ok := g.number(name); ok {
			numbers = append(numbers, n)
		} else {
			unknown = append(unknown, string(name))
		}
	})
	if err != nil {
		g.warn(r.Number, ruleHostlist, "want such as n[001-018]", fmt.Sprintf("NodeName: %v: slurmd ignores the line", err))
		numbers = nil
	}
	if len(numbers) == 0 {
		r.severity = Warning
	}
	g.sets.add(numbers, index)
	g.odd(r.Number, "NodeName", odd)
	if function != "" {
		g.notJudged(r.Number, fmt.Sprintf("NodeName: host list functions such as %s are not judged", hostlist.Shorten(function)))
	}
	if len(unknown) > 0 {
		g.warn(r.Number, ruleUnknown, "add the nodes to slurm.conf, or take them out", "NodeName has nodes that are not in slurm.conf: "+hostlist.Shorten(hostlist.Compress(unknown)))
	}
}

// gpuKnown reports whether slurm.conf's GresTypes has gpu.
func (g *gresFile) gpuKnown() bool {
	return g.GresTypes == nil || slices.ContainsFunc(g.GresTypes, func(t string) bool { return strings.EqualFold(t, "gpu") })
}

// sameCase reports whether gpu is written as in GresTypes.
func (g *gresFile) sameCase(name string) bool {
	return slices.Contains(g.GresTypes, name) || g.GresTypes == nil && (name == "gpu" || !strings.EqualFold(name, "gpu"))
}

// report adds a finding. It is fatal if the line is for a node of slurm.conf.
func (g *gresFile) report(r *gresRecord, rule, advice, message string) {
	g.add(r.severity, r.Number, rule, advice, message)
}

// autoDetect judges a value of AutoDetect.
func (g *gresFile) autoDetect(line int, value string) {
	words := autoDetectWords(g.Release)
	if read := readAutoDetect(g.Release, value); read == "" {
		g.warn(line, "AutoDetect", "want one of "+strings.Join(words, ", "), fmt.Sprintf("AutoDetect=%s is not known to Slurm %s, which ignores it", value, g.Release))
	} else if !strings.EqualFold(read, value) {
		g.warn(line, "AutoDetect", "want one of "+strings.Join(words, ", "), fmt.Sprintf("AutoDetect=%s is read as %s", value, read))
	}
}

// autoDetectWords are the ways of detection, in the order in which slurmd looks for
// them.
func autoDetectWords(r slurmconf.Release) []string {
	words := []string{"full", "nvml", "rsmi", "oneapi", "nrt", "nvidia", "off"}
	if !r.AutoDetectFull() {
		words = words[1:]
	}
	return words
}

// readAutoDetect returns the way that slurmd reads in a value: the first way whose
// word is anywhere in it. "off" must be the whole value.
func readAutoDetect(r slurmconf.Release, value string) string {
	value = strings.ToLower(value)
	for _, w := range autoDetectWords(r) {
		if value == w || w != "off" && strings.Contains(value, w) {
			return w
		}
	}
	return ""
}
