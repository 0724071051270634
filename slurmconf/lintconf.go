package slurmconf

import (
	"fmt"
	"strconv"
	"strings"
)

// lintConf judges topology.conf.
func (l *linter) lintConf(f File) {
	l.file = f.Name
	if l.Plugin == PluginFlat {
		l.warn(1, "ConfNotRead", "set TopologyPlugin, or remove the file", "topology/flat does not read topology.conf")
		return
	}
	lines, err := scanConf(f.Name, f.Data, func(line int, file string) {
		l.warn(line, "Include", "put its lines into this file", fmt.Sprintf("%s is included and was not looked into", file))
	})
	if err != nil {
		l.fatal(err.Line, ruleSyntax, "want lines of Key=Value pairs", err.Message)
	}
	r := &rawTopology{name: "default", kind: string(l.Plugin), isDefault: true}
	if l.Plugin == "" {
		r.kind = string(PluginBlock)
		if len(lines) > 0 && strings.EqualFold(lines[0].key, "SwitchName") {
			r.kind = string(PluginTree)
		}
	}
	r.units = make([]rawUnit, 0, len(lines))
	for i := range lines {
		l.confUnit(r, &lines[i])
	}
	if err != nil {
		return // what follows the line was not read
	}
	l.lintTopology(r)
	if l.Release.YAML() {
		l.lintPartitions(map[string]int{"default": 1})
	}
}

// confUnit reads one line as slurmctld does.
func (l *linter) confUnit(r *rawTopology, c *confLine) {
	block := r.kind == string(PluginBlock)
	switch {
	case block && strings.EqualFold(c.key, "BlockName"):
		u := rawUnit{name: c.value, line: c.line}
		l.confAttrs(c, &u, "Nodes")
		r.units = append(r.units, u)
	case block && strings.EqualFold(c.key, "BlockSizes"):
		if r.hasSizes {
			l.warn(c.line, "KeyTwice", "leave one of them", "BlockSizes is given twice, the last one counts")
		}
		l.confAttrs(c, &rawUnit{}, "")
		r.hasSizes, r.sizesLine = true, c.line
		r.sizes = l.confSizes(c)
	case !block && strings.EqualFold(c.key, "SwitchName"):
		u := rawUnit{name: c.value, line: c.line}
		l.confAttrs(c, &u, "Nodes, Switches, LinkSpeed")
		r.units = append(r.units, u)
	default:
		allowed := "BlockName and BlockSizes"
		if !block {
			allowed = "SwitchName"
		}
		l.fatal(c.line, ruleUnknownKey, "want "+allowed+", or another TopologyPlugin", fmt.Sprintf("key %s does not begin a line with topology/%s", c.key, r.kind))
	}
}

func (l *linter) confAttrs(c *confLine, u *rawUnit, allowed string) {
	for _, a := range c.attrs {
		twice := false
		switch {
		case allowed != "" && strings.EqualFold(a.key, "Nodes"):
			twice = u.hasNodes
			u.nodes, u.hasNodes = a.value, true
		case strings.Contains(allowed, "Switches") && strings.EqualFold(a.key, "Switches"):
			twice = u.hasChildren
			u.children, u.hasChildren = a.value, true
		case strings.Contains(allowed, "LinkSpeed") && strings.EqualFold(a.key, "LinkSpeed"):
			if _, err := strconv.ParseUint(a.value, 10, 32); err != nil && !strings.EqualFold(a.value, "INFINITE") && !strings.EqualFold(a.value, "UNLIMITED") {
				l.fatal(c.line, "LinkSpeed", "want a number, or leave it out: Slurm does not use it", fmt.Sprintf("LinkSpeed=%s is no number", a.value))
			}
		default:
			advice := "want " + allowed
			if allowed == "" {
				advice = "want nothing more on this line"
			}
			l.fatal(c.line, ruleUnknownKey, advice, fmt.Sprintf("key %s is not known after %s", a.key, c.key))
		}
		if twice {
			l.warn(c.line, "KeyTwice", "leave one of them", fmt.Sprintf("%s is given twice on one line, the last one counts", a.key))
		}
	}
}

// confSizes reads BlockSizes as slurmctld does: empty words are left out, and
// of a word the digits at its beginning count.
func (l *linter) confSizes(c *confLine) []int64 {
	var sizes []int64
	for word := range strings.SplitSeq(c.value, ",") {
		if word == "" {
			continue
		}
		text := strings.TrimLeft(word, " \t")
		end := 0
		for end < len(text) && (isDigit(text[end]) || end == 0 && (text[0] == '-' || text[0] == '+')) {
			end++
		}
		n, err := strconv.ParseInt(text[:end], 10, 64)
		if err == nil && end < len(text) {
			l.warn(c.line, ruleBlockSizes, "want a number only", fmt.Sprintf("BlockSizes: %q is read as %d", word, n))
		}
		if int64(int32(n)) != n {
			l.warn(c.line, ruleBlockSizes, "want a smaller number", fmt.Sprintf("BlockSizes: %q does not fit: Slurm reads another number", word))
		}
		sizes = append(sizes, int64(int32(n)))
	}
	return sizes
}
