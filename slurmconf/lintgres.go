package slurmconf

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const gresKeys = "Name, Type, Count, File, MultipleFiles, Cores, Links, Flags, AutoDetect"

// lintGres judges gres.conf. Fatal means that slurmd does not start on a node
// that the line is for; whether a device file exists cannot be seen here.
func (l *linter) lintGres(f File) {
	l.file = f.Name
	lines, err := scanConf(f.Name, f.Data, func(line int, file string) {
		l.warn(line, "Include", "put its lines into this file", fmt.Sprintf("%s is included and was not looked into", file))
	})
	if err != nil {
		l.fatal(err.Line, ruleSyntax, "want lines of Key=Value pairs", err.Message)
	}
	g := gresLinter{linter: l, names: make(map[string]*gresUse)}
	for i := range lines {
		c := &lines[i]
		g.rec = gresRecord{line: c.line}
		switch strings.ToLower(c.key) {
		case "nodename":
			g.rec.nodes, g.rec.hasNodes = c.value, true
		case "name":
			g.rec.name = c.value
		case "autodetect":
			g.autodetect(c.value)
			if len(c.attrs) > 0 {
				l.fatal(c.line, ruleUnknownKey, "begin the line with NodeName= or Name=", fmt.Sprintf("key %s is not known after AutoDetect", c.attrs[0].key))
			}
			continue
		default:
			l.fatal(c.line, ruleUnknownKey, "want NodeName, Name or AutoDetect", fmt.Sprintf("key %s does not begin a line", c.key))
			continue
		}
		g.attrs(c)
		g.record()
	}
	g.counts()
}

// gresLinter judges one gres.conf, line by line and then node by node.
type gresLinter struct {
	*linter
	rec   gresRecord
	names map[string]*gresUse // by GRES name
	order []string
	auto  bool // some line sets AutoDetect, so counts are not known here
}

// gresRecord is one line as slurmd reads it.
type gresRecord struct {
	line                int
	nodes, name, typ    string
	hasNodes, hasDevice bool
	autodetect          string
	count               uint64
	hasCount            bool
	files, multiple     int
	hasMultiple         bool
	links               string
}

func (g *gresLinter) attrs(c *confLine) {
	seen := make([]string, 0, 8)
	for _, a := range c.attrs {
		key := strings.ToLower(a.key)
		if slices.Contains(seen, key) {
			g.warn(c.line, "KeyTwice", "leave one of them", fmt.Sprintf("%s is given twice on one line, the last one counts", a.key))
		}
		seen = append(seen, key)
		switch key {
		case "name":
			if !g.rec.hasNodes {
				g.unknownKey(c, a.key)
			}
			g.rec.name = a.value
		case "type":
			g.rec.typ = a.value
		case "count":
			g.countOf(c, a.value)
		case "file", "files":
			g.rec.files = g.fileCount(c, a)
		case "multiplefiles":
			g.rec.multiple, g.rec.hasMultiple = g.fileCount(c, a), true
		case "links", "link":
			g.rec.links = a.value
		case "flags":
			g.flags(c, a.value)
		case "cores", "cpus":
		case "autodetect":
			g.rec.autodetect = a.value
		default:
			g.unknownKey(c, a.key)
		}
		g.rec.hasDevice = g.rec.hasDevice || key != "name" && key != "autodetect"
	}
}

func (g *gresLinter) unknownKey(c *confLine, key string) {
	g.fatal(c.line, ruleUnknownKey, "want "+gresKeys, fmt.Sprintf("key %s is not known after %s", key, c.key))
}

func (g *gresLinter) countOf(c *confLine, value string) {
	n, ok := slurmCount(value)
	if !ok {
		g.fatal(c.line, "Count", "want a number of 1 or more", fmt.Sprintf("Count=%s is no count", value))
		return
	}
	if plain, err := parseCount(value); err != nil || plain != n {
		g.warn(c.line, "Count", "want a number of 1 or more", fmt.Sprintf("Count=%s is read as %d", value, n))
	}
	g.rec.count, g.rec.hasCount = n, true
}

// slurmCount reads a count as slurmd does: the digits at the beginning, none
// for zero, and a suffix.
func slurmCount(s string) (uint64, bool) {
	s = strings.TrimLeft(s, " \t")
	digits := strings.TrimPrefix(s, "+")
	end := 0
	for end < len(digits) && isDigit(digits[end]) {
		end++
	}
	n, err := strconv.ParseInt(digits[:end], 10, 64)
	if err != nil && end > 0 || n == math.MaxInt64 {
		return 0, false
	}
	suffix, unit := strings.ToLower(digits[end:]), uint64(1024)
	if suffix == "" {
		return uint64(n), true
	}
	power := strings.IndexByte("kmgtp", suffix[0]) + 1
	switch suffix[1:] {
	case "b":
		unit = 1000
	case "", "ib":
	default:
		return 0, false
	}
	value := uint64(n)
	for range power {
		value *= unit // it wraps in slurmd too
	}
	return value, power > 0
}

func (g *gresLinter) fileCount(c *confLine, a confPair) int {
	n := 0
	if err := walkHosts(a.value, func([]byte) { n++ }); err != nil {
		g.fatal(c.line, "BrokenHostlist", "want such as /dev/nvidia[0-3]", fmt.Sprintf("%s: %v", a.key, err))
	}
	return n
}

func (g *gresLinter) flags(c *confLine, value string) {
	known := []string{"countonly", "explicit", "one_sharing", "all_sharing", "nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "opencl_env", "no_gpu_env"}
	for flag := range strings.SplitSeq(value, ",") {
		if flag != "" && !slices.Contains(known, strings.ToLower(flag)) {
			g.warn(c.line, "Flags", "want "+strings.Join(known, ", "), fmt.Sprintf("flag %q is not known: slurmd ignores it", flag))
		}
	}
}

// autodetect judges a value of AutoDetect.
func (g *gresLinter) autodetect(value string) {
	g.auto = g.auto || !strings.EqualFold(value, "off")
	known := []string{"nvml", "nvidia", "rsmi", "oneapi", "nrt", "off"}
	if g.Release.AutoDetectFull() {
		known = append(known, "full")
	}
	if !slices.Contains(known, strings.ToLower(value)) {
		g.warn(g.rec.line, "AutoDetect", "want "+strings.Join(known, ", "), fmt.Sprintf("AutoDetect=%s is not known to Slurm %s, which ignores it", value, g.Release))
	}
}

// record judges one whole line and notes it for its nodes.
func (g *gresLinter) record() {
	r := &g.rec
	if r.autodetect != "" {
		g.autodetect(r.autodetect)
		if !r.hasNodes {
			g.warn(r.line, "AutoDetect", "add NodeName=, or put AutoDetect on a line of its own", "AutoDetect on a line without NodeName has no effect")
		}
	}
	if r.name == "" {
		if r.hasDevice || r.autodetect == "" {
			g.warn(r.line, ruleNoName, "add Name=gpu", "the line has no Name: slurmd ignores it")
		}
		return
	}
	switch {
	case r.files > 0 && r.multiple > 0:
		g.fatal(r.line, "FileAndMultipleFiles", "leave one of them", "File and MultipleFiles are on one line")
	case r.hasMultiple && r.multiple < 2:
		g.fatal(r.line, "MultipleFiles", "use File for a device of one file", "MultipleFiles has fewer than two files")
	}
	devices := uint64(r.files)
	if r.multiple > 0 {
		devices = 1
	}
	if r.hasCount && devices > 0 && r.count != devices {
		g.fatal(r.line, "Count", "leave Count out", fmt.Sprintf("Count=%d and %d devices in the files", r.count, devices))
	}
	g.lintLinks(r)
	if devices == 0 {
		devices = r.count
	}
	if devices == 0 && !r.hasCount && r.autodetect == "" {
		devices = 1
	}
	g.note(r, nodeGres{count: devices, file: r.files+r.multiple > 0, noFile: r.files+r.multiple == 0, typed: r.typ != "", plain: r.typ == "", auto: r.autodetect != "" && !strings.EqualFold(r.autodetect, "off"), line: r.line})
}

func (g *gresLinter) lintLinks(r *gresRecord) {
	if r.links == "" {
		return
	}
	self := 0
	for word := range strings.SplitSeq(r.links, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < -1 {
			self = 2
		} else if n == -1 {
			self++
		}
	}
	if self != 1 {
		g.warn(r.line, "Links", "want one number per device, -1 once, for the device itself; leave it out on NVSwitch machines", fmt.Sprintf("Links=%s: slurmd ignores it", r.links))
	} else if r.files > 1 {
		g.warn(r.line, "Links", "write one line per device, or leave it out", "Links on a line of several devices holds for each of them")
	}
}
