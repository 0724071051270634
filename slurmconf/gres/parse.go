// Package gres writes and reads gres.conf: the lines of each node's GPUs, made from what
// the node reports and from the lines that are published. It counts GPUs, in gres.conf and in
// Gres= of slurm.conf.
//
// The package is pure: text in, text out. Package lint judges the file.
package gres

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// keys are the keys that may follow on a line of gres.conf, in lower case, and the key that means the same.
var keys = map[string]string{
	"name": "name", "type": "type", "count": "count", "file": "file", "files": "file", "multiplefiles": "multiplefiles",
	"cores": "cores", "cpus": "cores", "links": "links", "link": "links", "flags": "flags", "autodetect": "autodetect",
}

// Scan reads gres.conf and returns what slurmd takes of each line, with the number of the line. name
// stands for the file in messages.
//
// A warning names what slurmd ignores of a line; the line is without it. If a line has a fatal or an
// unknown finding, slurmd does not start with the line, or it is not known how slurmd reads it. Host lists
// of NodeName are not looked into. An AutoDetect line of its own is a line without Name.
func Scan(name string, data []byte) ([]Line, []topology.Finding) {
	return scan(name, data, func(*syntax.Line) bool { return true })
}

// Parse reads gres.conf as Scan does. A line that is not sure to be read as slurmd does is an error, a
// *syntax.ParseError. The lines have no numbers.
func Parse(name string, data []byte) ([]Line, error) {
	lines, found := Scan(name, data)
	if err := firstError(found); err != nil {
		return nil, err
	}
	for i := range lines {
		l := &lines[i]
		if err := hostlist.Walk(l.Nodes, func([]byte) {}); err != nil {
			return nil, &syntax.ParseError{File: name, Line: l.Number, Key: "NodeName", Message: err.Error()}
		}
		l.Number = 0
	}
	return lines, nil
}

// firstError returns the first finding that leaves unknown what slurmd reads.
func firstError(found []topology.Finding) error {
	for _, f := range found {
		if f.Severity != topology.Warning {
			return &syntax.ParseError{File: f.File, Line: f.Line, Message: f.Message + "; " + f.Remedy, NotJudged: f.Severity == topology.Unknown}
		}
	}
	return nil
}

// scan reads the lines that are taken.
func scan(name string, data []byte, takes func(*syntax.Line) bool) ([]Line, []topology.Finding) {
	s := scanner{Findings: syntax.Findings{File: name}}
	conf, err := syntax.Scan(name, data)
	if err != nil {
		s.Fatal(err.Line, syntax.ReasonSyntax, "want lines of Key=Value pairs", "%s", err.Message)
		return nil, s.All
	}
	s.lines = make([]Line, 0, len(conf))
	for i := range conf {
		if takes(&conf[i]) {
			s.line(&conf[i])
		}
	}
	return s.lines, s.All
}

type scanner struct {
	syntax.Findings
	lines []Line
}

func (s *scanner) line(c *syntax.Line) {
	l, seen := Line{Number: c.Number}, map[string]bool{}
	switch key := strings.ToLower(c.Key); {
	case c.Include != "":
		s.Add(topology.Unknown, c.Number, syntax.ReasonInclude, "put its lines into this file", "%s is included and was not looked into", c.Include)
		return
	case key == "nodename":
		if l.Nodes = c.Value; l.Nodes == "" {
			s.NotJudged(c.Number, "NodeName is empty")
		}
	case key == "name":
		l.Name, seen[key] = c.Value, true
	case key == "autodetect" && len(c.Attrs) == 0:
		l.AutoDetect = c.Value
	default:
		s.Fatal(c.Number, syntax.ReasonUnknownKey, "want NodeName or Name, or AutoDetect and nothing more", "key %s does not begin such a line", c.Key)
		return
	}
	var values []syntax.Pair
	for _, a := range c.Attrs {
		key, known := keys[strings.ToLower(a.Key)]
		switch {
		case !known:
			s.Fatal(c.Number, syntax.ReasonUnknownKey, "want Name, Type, Count, File, MultipleFiles, Cores, Links, Flags, AutoDetect", "key %s is not known after %s", a.Key, c.Key)
		case seen[key] || a.Value == "":
			s.NotJudged(c.Number, "key %s is empty or given twice", a.Key)
		case key == "name":
			l.Name = a.Value
		case key == "autodetect":
			l.AutoDetect = a.Value
		default:
			values = append(values, syntax.Pair{Key: key, Value: a.Value})
		}
		seen[key] = true
	}
	if l.Name != "" && l.Nodes == "" && l.AutoDetect != "" {
		s.Warn(c.Number, ReasonAutoDetect, "write AutoDetect on a line of its own, or begin the line with NodeName=", "AutoDetect=%s has no effect on a line without NodeName", hostlist.Shorten(l.AutoDetect))
		l.AutoDetect = ""
	}
	if l.Name == "" && (l.AutoDetect == "" || len(values) > 0) {
		s.Warn(c.Number, syntax.ReasonName, "add Name=gpu", "the line has no Name: slurmd ignores its devices")
		values = nil
	}
	for _, v := range values {
		s.set(&l, v.Key, v.Value)
	}
	if l.Name != "" || l.AutoDetect != "" {
		s.lines = append(s.lines, l)
	}
}

// set reads one value of a line that has a Name.
func (s *scanner) set(l *Line, key, value string) {
	switch key {
	case "type":
		l.Type = value
	case "count":
		if n, ok := ReadCount(value); ok && n > 0 && n < math.MaxInt64 {
			l.Count = n
		} else {
			s.NotJudged(l.Number, "Count=%s is no plain number", value)
		}
	case "file":
		l.Files = s.files(l.Number, "File", value)
	case "multiplefiles":
		l.MultipleFiles = s.files(l.Number, "MultipleFiles", value)
	case "cores":
		l.Cores = value
	case "links":
		if l.Links = readLinks(value); l.Links == nil {
			s.Warn(l.Number, ReasonLine, "want one number per device, -1 once, for the device itself; leave it out on NVSwitch machines", "Links=%s: slurmd ignores it", value)
		}
	case "flags":
		if l.Flags = strings.FieldsFunc(value, func(r rune) bool { return r == ',' }); len(l.Flags) == 0 {
			s.NotJudged(l.Number, "Flags=%s is no list", value)
		}
	}
}

// files reads a list of device files.
func (s *scanner) files(line int, key, value string) []string {
	files, err := hostlist.Expand(value)
	switch {
	case errors.Is(err, hostlist.ErrNotPlain) || err == nil && len(files) == 0:
		s.NotJudged(line, "%s: %q is no plain list of files", key, hostlist.Shorten(value))
	case err != nil:
		s.Fatal(line, syntax.ReasonBadValue, "want such as /dev/nvidia[0-3]", "%s: %v", key, err)
	}
	return files
}

// readLinks returns nil if slurmd ignores the value: one number is -1, and the others are not negative.
func readLinks(value string) []int {
	var links []int
	for word := range strings.SplitSeq(value, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < -1 || n == -1 && slices.Contains(links, -1) {
			return nil
		}
		links = append(links, n)
	}
	if !slices.Contains(links, -1) {
		return nil
	}
	return links
}
