// Package gres writes and reads gres.conf: the lines of each node's GPUs, made from what
// the node reports and from the lines that are published.
//
// The package is pure: text in, text out. Package lint judges the file.
package gres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
)

// Parse reads gres.conf. name stands for the file in messages. Errors are
// *syntax.ParseError. An AutoDetect line of its own is a line without Name.
func Parse(name string, data []byte) ([]Line, error) {
	conf, err := syntax.Scan(name, data)
	if err != nil {
		return nil, err
	}
	lines := make([]Line, 0, len(conf))
	for i := range conf {
		l, err := parseLine(name, &conf[i])
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func parseLine(file string, c *syntax.Line) (Line, *syntax.ParseError) {
	var l Line
	if c.Include != "" {
		return l, &syntax.ParseError{File: file, Line: c.Number, Key: "Include", Message: c.Include + " is not read here: put its lines into this file"}
	}
	switch strings.ToLower(c.Key) {
	case "nodename":
		l.Nodes = c.Value
	case "name":
		l.Name = c.Value
	case "autodetect":
		l.AutoDetect = c.Value
		if len(c.Attrs) > 0 {
			return l, &syntax.ParseError{File: file, Line: c.Number, Key: c.Attrs[0].Key, Message: "not allowed after AutoDetect: want nothing more on this line, or begin it with NodeName= or Name="}
		}
		return l, nil
	default:
		return l, &syntax.ParseError{File: file, Line: c.Number, Key: c.Key, Message: "not allowed at the beginning of a line: want NodeName, Name or AutoDetect"}
	}
	for _, a := range c.Attrs {
		if err := l.set(file, c.Number, a); err != nil {
			return l, err
		}
	}
	if l.Name == "" && (l.AutoDetect == "" || l.hasDevices()) {
		return l, &syntax.ParseError{File: file, Line: c.Number, Key: "Name", Message: "missing: want such as Name=gpu"}
	}
	return l, nil
}

func (l *Line) set(file string, line int, a syntax.Pair) *syntax.ParseError {
	fail := func(format string, args ...any) *syntax.ParseError {
		return &syntax.ParseError{File: file, Line: line, Key: a.Key, Message: fmt.Sprintf(format, args...)}
	}
	if a.Value == "" {
		return fail("empty value: leave the key out or give it a value")
	}
	var err error
	switch strings.ToLower(a.Key) {
	case "name":
		l.Name = a.Value
	case "type":
		l.Type = a.Value
	case "count":
		if count, ok := ReadCount(a.Value); ok && count > 0 {
			l.Count = count
		} else {
			return fail("%q is no count: want a number of 1 or more, with K, M, G or T behind it for 1024, 1024x1024 and so on", a.Value)
		}
	case "file", "files":
		if l.Files, err = hostlist.Expand(a.Value); err != nil {
			return fail("%v", err)
		}
	case "multiplefiles":
		if l.MultipleFiles, err = hostlist.Expand(a.Value); err != nil {
			return fail("%v", err)
		}
	case "cores", "cpus":
		l.Cores = a.Value
	case "links", "link":
		if l.Links, err = parseInts(a.Value); err != nil {
			return fail("%q: want one number per device, -1 for the device itself, such as -1,16,16,16", a.Value)
		}
	case "flags":
		if l.Flags = strings.FieldsFunc(a.Value, func(r rune) bool { return r == ',' }); len(l.Flags) == 0 {
			l.Flags = nil
		}
	case "autodetect":
		l.AutoDetect = a.Value
	default:
		return fail("unknown key: want Name, Type, Count, File, MultipleFiles, Cores, Links, Flags or AutoDetect")
	}
	return nil
}

func parseInts(s string) ([]int, error) {
	var numbers []int
	for word := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
