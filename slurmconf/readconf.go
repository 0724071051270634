package slurmconf

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// ReadConf reads topology.conf as slurmctld does with the plugin of a kind, block or tree. If
// kind is empty, the first line decides. Lines of other kinds are not read. The section has no
// kind if its lines or its sizes cannot be read.
func ReadConf(name string, data []byte, kind string) (Section, []topology.Finding) {
	r := confReader{Findings: syntax.Findings{File: name}, section: Section{Name: topology.ConfTopology, Default: true, Line: 1}}
	lines, err := syntax.Scan(name, data)
	if err != nil {
		r.Fatal(err.Line, syntax.ReasonSyntax, "want lines of Key=Value pairs", "%s", err.Message)
		return r.section, r.All
	}
	if kind == "" {
		kind = "block"
		if len(lines) > 0 {
			kind = cmp.Or(KindOfLine(lines[0].Key), kind)
		}
	}
	r.section.Kind = kind
	if kind != "block" && kind != "tree" {
		r.NotJudged(1, "topology/%s is not judged", kind)
		return r.section, r.All
	}
	r.section.Units = make([]Unit, 0, len(lines))
	for i := range lines {
		r.line(&lines[i])
	}
	if r.unknownSizes {
		r.section.Kind = ""
	}
	return r.section, r.All
}

type confReader struct {
	syntax.Findings
	section      Section
	unknownSizes bool
}

func (r *confReader) line(l *syntax.Line) {
	s := &r.section
	block := s.Kind == "block"
	switch {
	case l.Include != "": // Join could not follow it
		r.Add(topology.Unknown, l.Number, syntax.ReasonInclude, "put its lines into this file", "%s is included and was not looked into", l.Include)
	case block && strings.EqualFold(l.Key, "BlockName"):
		s.Units = append(s.Units, r.unit(l, "Nodes"))
	case block && strings.EqualFold(l.Key, "BlockSizes"):
		r.unit(l)
		r.sizes(l)
	case !block && strings.EqualFold(l.Key, "SwitchName"):
		s.Units = append(s.Units, r.unit(l, "Nodes", "Switches", "LinkSpeed"))
	default:
		allowed := "BlockName and BlockSizes"
		if !block {
			allowed = "SwitchName"
		}
		r.Fatal(l.Number, syntax.ReasonUnknownKey, "want "+allowed+", or another TopologyPlugin", "key %s does not begin a line with topology/%s", l.Key, s.Kind)
	}
}

// unit reads the line of a block or switch. allowed are the keys that may follow.
func (r *confReader) unit(l *syntax.Line, allowed ...string) Unit {
	u := Unit{Line: l.Number, Name: l.Value}
	for i, a := range l.Attrs {
		if slices.ContainsFunc(l.Attrs[:i], func(b syntax.Pair) bool { return strings.EqualFold(a.Key, b.Key) }) {
			r.NotJudged(l.Number, "key %s is given twice", a.Key)
		}
		switch slices.IndexFunc(allowed, func(key string) bool { return strings.EqualFold(a.Key, key) }) {
		case 0:
			u.Nodes, u.HasNodes = a.Value, true
		case 1:
			u.Children, u.HasChildren = a.Value, true
		case 2: // Slurm does not use it
			if _, err := strconv.ParseUint(a.Value, 10, 32); err != nil {
				r.NotJudged(l.Number, "%s=%s is no plain number", a.Key, a.Value)
			}
		default:
			r.Fatal(l.Number, syntax.ReasonUnknownKey, "take it out", "key %s is not known after %s", a.Key, l.Key)
		}
	}
	return u
}

// sizes reads BlockSizes. Slurm leaves empty words out.
func (r *confReader) sizes(l *syntax.Line) {
	if r.section.SizesLine > 0 {
		r.NotJudged(l.Number, "BlockSizes is given twice")
		r.unknownSizes = true
	}
	r.section.SizesLine = l.Number
	for word := range strings.SplitSeq(l.Value, ",") {
		size, err := strconv.ParseInt(word, 10, 32)
		switch {
		case err == nil:
			r.section.Sizes = append(r.section.Sizes, size)
		case word != "":
			r.NotJudged(l.Number, "BlockSizes: %q is no plain number", word)
			r.unknownSizes = true
		}
	}
}
