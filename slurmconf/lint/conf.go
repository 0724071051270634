package lint

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// readConf reads topology.conf as slurmctld does. whole is false if a line cannot be
// read: then nobody knows what follows it.
func readConf(r *report, f File, plugin Plugin) (s *section, whole bool) {
	lines, err := slurmconf.Scan(f.Name, f.Data, r.include)
	if err != nil {
		r.fatal(err.Line, ruleSyntax, "want lines of Key=Value pairs", err.Message)
	}
	s = &section{name: "default", kind: string(plugin), isDefault: true}
	if plugin == "" {
		s.kind = string(PluginBlock)
		if len(lines) > 0 && strings.EqualFold(lines[0].Key, "SwitchName") {
			s.kind = string(PluginTree)
		}
	}
	s.units = make([]unit, 0, len(lines))
	for i := range lines {
		confUnit(r, s, &lines[i])
	}
	return s, err == nil
}

// include names a file that Lint does not look into.
func (r *report) include(line int, file string) {
	r.warn(line, "Include", "put its lines into this file", file+" is included and was not looked into")
}

// confUnit reads one line as slurmctld does.
func confUnit(r *report, s *section, c *slurmconf.Line) {
	block := s.kind == string(PluginBlock)
	switch {
	case block && strings.EqualFold(c.Key, "BlockName"):
		u := unit{name: c.Value, line: c.Number}
		confAttrs(r, c, &u, "Nodes")
		s.units = append(s.units, u)
	case block && strings.EqualFold(c.Key, "BlockSizes"):
		if s.hasSizes {
			r.warn(c.Number, ruleKeyTwice, "leave one of them", "BlockSizes is given twice, the last one counts")
		}
		confAttrs(r, c, &unit{}, "")
		s.hasSizes, s.sizesLine = true, c.Number
		s.sizes = confSizes(r, c)
	case !block && strings.EqualFold(c.Key, "SwitchName"):
		u := unit{name: c.Value, line: c.Number}
		confAttrs(r, c, &u, "Nodes, Switches, LinkSpeed")
		s.units = append(s.units, u)
	default:
		allowed := "BlockName and BlockSizes"
		if !block {
			allowed = "SwitchName"
		}
		r.fatal(c.Number, ruleUnknownKey, "want "+allowed+", or another TopologyPlugin", fmt.Sprintf("key %s does not begin a line with topology/%s", c.Key, s.kind))
	}
}

func confAttrs(r *report, c *slurmconf.Line, u *unit, allowed string) {
	for _, a := range c.Attrs {
		twice := false
		switch {
		case allowed != "" && strings.EqualFold(a.Key, "Nodes"):
			twice = u.hasNodes
			u.nodes, u.hasNodes = a.Value, true
		case strings.Contains(allowed, "Switches") && strings.EqualFold(a.Key, "Switches"):
			twice = u.hasChildren
			u.children, u.hasChildren = a.Value, true
		case strings.Contains(allowed, "LinkSpeed") && strings.EqualFold(a.Key, "LinkSpeed"):
			if _, err := strconv.ParseUint(a.Value, 10, 32); err != nil && !strings.EqualFold(a.Value, "INFINITE") && !strings.EqualFold(a.Value, "UNLIMITED") {
				r.fatal(c.Number, "LinkSpeed", "want a number, or leave it out: Slurm does not use it", fmt.Sprintf("LinkSpeed=%s is no number", a.Value))
			}
		default:
			advice := "want " + allowed
			if allowed == "" {
				advice = "want nothing more on this line"
			}
			r.fatal(c.Number, ruleUnknownKey, advice, fmt.Sprintf("key %s is not known after %s", a.Key, c.Key))
		}
		if twice {
			r.warn(c.Number, ruleKeyTwice, "leave one of them", fmt.Sprintf("%s is given twice on one line, the last one counts", a.Key))
		}
	}
}

// confSizes reads BlockSizes as slurmctld does: empty words are left out, and
// of a word the digits at its beginning count.
func confSizes(r *report, c *slurmconf.Line) []int64 {
	var sizes []int64
	for word := range strings.SplitSeq(c.Value, ",") {
		if word == "" {
			continue
		}
		text := strings.TrimLeft(word, " \t")
		end := 0
		for end < len(text) && (text[end]-'0' <= 9 || end == 0 && (text[0] == '-' || text[0] == '+')) {
			end++
		}
		n, err := strconv.ParseInt(text[:end], 10, 64)
		if err == nil && end < len(text) {
			r.warn(c.Number, ruleBlockSizes, "want a number only", fmt.Sprintf("BlockSizes: %q is read as %d", word, n))
		}
		if int64(int32(n)) != n {
			r.warn(c.Number, ruleBlockSizes, "want a smaller number", fmt.Sprintf("BlockSizes: %q does not fit: Slurm reads another number", word))
		}
		sizes = append(sizes, int64(int32(n)))
	}
	return sizes
}
