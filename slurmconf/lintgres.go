package slurmconf

import (
	"fmt"
	"slices"
	"strings"
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

// gresKeyWords are the keys in lower case. Of File and Files, Cores and CPUs,
// Link and Links the first counts where both are given.
var gresKeyWords = [keyNumber]string{"name", "type", "count", "file", "files", "multiplefiles", "cores", "cpus", "link", "links", "flags", "autodetect"}

const gresKeys = "Name, Type, Count, File, MultipleFiles, Cores, Links, Flags, AutoDetect"

// gresRecord is one line as slurmd reads it: of each key the last value.
type gresRecord struct {
	*confLine
	at       [keyNumber]int32 // 1 + the place of each key among attrs; 0 where it is not given
	perNode  bool             // the line begins with NodeName, else with Name
	flags    gresFlag
	count    uint64
	severity Severity // Warning where the line is for no node of slurm.conf
}

func (r *gresRecord) has(key gresKey) bool {
	return r.at[key] > 0 || key == keyName && !r.perNode
}

func (r *gresRecord) get(key gresKey) string {
	switch {
	case key == keyName && !r.perNode:
		return r.value
	case r.at[key] == 0:
		return ""
	}
	return r.attrs[r.at[key]-1].value
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

// shared reports whether the resource is a part of gpus: any count of it
// belongs to a file.
func (r *gresRecord) shared() bool {
	return r.get(keyName) == "mps" || r.get(keyName) == "shard"
}

// gresLinter judges one gres.conf, line by line and then node by node.
type gresLinter struct {
	*linter
	auto    string // AutoDetect for nodes without one of their own
	records []gresRecord
	all     []int32 // indices of the records for every node
	classes gresClasses
	said    map[saying]bool
	seen    map[string]bool // device files of one node
}

// saying is a finding that is made once, however many nodes it is about.
type saying struct {
	severity Severity
	line     int
	rule     string
}

// lintGres judges gres.conf. Fatal means that slurmd does not start on a node
// that the line is for; whether a device file exists cannot be seen here, and
// mps and shard are judged by what holds for every resource.
func (l *linter) lintGres(f File) {
	l.file = f.Name
	lines, err := scanConf(f.Name, f.Data, func(line int, file string) {
		l.warn(line, "Include", "put its lines into this file", fmt.Sprintf("%s is included and was not looked into", file))
	})
	if err != nil {
		l.fatal(err.Line, ruleSyntax, "want lines of Key=Value pairs", err.Message)
	}
	g := gresLinter{linter: l, records: make([]gresRecord, 0, len(lines)), said: make(map[saying]bool), seen: make(map[string]bool)}
	g.classes.init(l)
	for i := range lines {
		g.confLine(&lines[i])
	}
	g.judgeNodes()
	g.lintConfNodes()
}

func (g *gresLinter) confLine(c *confLine) {
	r := gresRecord{confLine: c, severity: Fatal}
	switch strings.ToLower(c.key) {
	case "nodename":
		r.perNode = true
	case "name":
	case "autodetect":
		g.autoDetectLine(c)
		return
	default:
		g.fatal(c.line, ruleUnknownKey, "want NodeName, Name or AutoDetect", fmt.Sprintf("key %s does not begin a line", c.key))
		return
	}
	for i, a := range c.attrs {
		key := gresKey(slices.Index(gresKeyWords[:], strings.ToLower(a.key)))
		switch {
		case key < 0:
			g.fatal(c.line, ruleUnknownKey, "want "+gresKeys, fmt.Sprintf("key %s is not known after %s", a.key, c.key))
			continue
		case key == keyName && !r.perNode:
			g.warn(c.line, "KeyTwice", "leave one of them", "Name is given twice on one line, the first one counts")
		case r.has(key):
			g.warn(c.line, "KeyTwice", "leave one of them", fmt.Sprintf("%s is given twice on one line, the last one counts", a.key))
		}
		r.at[key] = int32(i + 1)
	}
	g.records = append(g.records, r)
	g.record(int32(len(g.records) - 1))
}

// autoDetectLine judges AutoDetect on a line of its own.
func (g *gresLinter) autoDetectLine(c *confLine) {
	if g.auto != "" {
		g.warn(c.line, "KeyTwice", "leave one of them", "AutoDetect for every node is given twice, the last one counts")
	}
	g.auto = c.value
	g.autoDetect(c.line, c.value)
	if len(c.attrs) > 0 {
		g.fatal(c.line, ruleUnknownKey, "begin the line with NodeName= or Name=", fmt.Sprintf("key %s is not known after AutoDetect", c.attrs[0].key))
	}
}

// record judges one line by itself and notes which nodes it is for.
func (g *gresLinter) record(index int32) {
	r := &g.records[index]
	if r.perNode {
		g.classes.add(g, index)
	} else {
		g.all = append(g.all, index)
	}
	if r.has(keyAutoDetect) {
		g.autoDetect(r.line, r.get(keyAutoDetect))
		if !r.perNode {
			g.warn(r.line, "AutoDetect", "add NodeName=, or put AutoDetect on a line of its own", "AutoDetect on a line without NodeName has no effect")
		}
	}
	if !r.has(keyName) {
		others := r.at
		others[keyAutoDetect] = 0
		if !r.has(keyAutoDetect) || others != [keyNumber]int32{} {
			g.warn(r.line, ruleNoName, "add Name=gpu", "the line has no Name: slurmd ignores what it says of devices")
		}
		return
	}
	switch name := r.get(keyName); {
	case !g.knownGres(name):
		g.warn(r.line, "UnknownGres", "add it to GresTypes in slurm.conf, or correct the name", fmt.Sprintf("Name=%s is not in GresTypes: slurmd ignores the line", name))
	case !g.sameCase(name):
		g.warn(r.line, "GresCase", "write it as in GresTypes", fmt.Sprintf("Name=%s differs from GresTypes in case: slurmd does not use its files", name))
	}
	g.lintFiles(r)
	g.lintFlags(r)
	g.lintCount(r)
	g.lintCores(r)
	g.lintLinks(r)
}

// knownGres reports whether slurm.conf's GresTypes has the name.
func (g *gresLinter) knownGres(name string) bool {
	return g.GresTypes == nil || slices.ContainsFunc(g.GresTypes, func(t string) bool { return strings.EqualFold(t, name) })
}

// sameCase reports whether a name is written as in GresTypes.
func (g *gresLinter) sameCase(name string) bool {
	return slices.Contains(g.GresTypes, name) || g.GresTypes == nil && (name == "gpu" || !strings.EqualFold(name, "gpu"))
}

// report adds a finding that is fatal where the line is for a node of
// slurm.conf.
func (g *gresLinter) report(r *gresRecord, rule, advice, message string) {
	g.add(r.severity, r.line, rule, advice, message)
}

// autoDetect judges a value of AutoDetect.
func (g *gresLinter) autoDetect(line int, value string) {
	words := g.Release.autoDetectWords()
	if read := g.Release.readAutoDetect(value); read == "" {
		g.warn(line, "AutoDetect", "want one of "+strings.Join(words, ", "), fmt.Sprintf("AutoDetect=%s is not known to Slurm %s, which ignores it", value, g.Release))
	} else if !strings.EqualFold(read, value) {
		g.warn(line, "AutoDetect", "want one of "+strings.Join(words, ", "), fmt.Sprintf("AutoDetect=%s is read as %s", value, read))
	}
}

// autoDetectWords are the ways of detection, in the order that slurmd looks for
// them.
func (r Release) autoDetectWords() []string {
	words := []string{"full", "nvml", "rsmi", "oneapi", "nrt", "nvidia", "off"}
	if !r.AutoDetectFull() {
		words = words[1:]
	}
	return words
}

// readAutoDetect returns the way that slurmd takes a value for: the first whose
// word is anywhere in it, but "off" as a whole only.
func (r Release) readAutoDetect(value string) string {
	value = strings.ToLower(value)
	for _, w := range r.autoDetectWords() {
		if value == w || w != "off" && strings.Contains(value, w) {
			return w
		}
	}
	return ""
}
