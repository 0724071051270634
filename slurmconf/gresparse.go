package slurmconf

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// ParseGres reads gres.conf, for messages called name. Errors are *ParseError.
// An AutoDetect line of its own is a line without Name.
func ParseGres(name string, data []byte) ([]GresLine, error) {
	lines, _, err := parseGres(name, data)
	if err != nil {
		return nil, err
	}
	return lines, nil
}

// parseGres also returns the number of each line.
func parseGres(name string, data []byte) ([]GresLine, []int, *ParseError) {
	var included *ParseError
	conf, err := scanConf(name, data, func(line int, file string) {
		included = &ParseError{File: name, Line: line, Key: "Include", Message: fmt.Sprintf("%s is not read here: put its lines into this file", file)}
	})
	if err == nil {
		err = included
	}
	if err != nil {
		return nil, nil, err
	}
	lines, numbers := make([]GresLine, 0, len(conf)), make([]int, 0, len(conf))
	for i := range conf {
		l, err := gresLine(name, &conf[i])
		if err != nil {
			return nil, nil, err
		}
		lines, numbers = append(lines, l), append(numbers, conf[i].line)
	}
	return lines, numbers, nil
}

func gresLine(file string, c *confLine) (GresLine, *ParseError) {
	var l GresLine
	switch strings.ToLower(c.key) {
	case "nodename":
		l.Nodes = c.value
	case "name":
		l.Name = c.value
	case "autodetect":
		l.AutoDetect = c.value
		if len(c.attrs) > 0 {
			return l, &ParseError{File: file, Line: c.line, Key: c.attrs[0].key, Message: "not allowed after AutoDetect: want nothing more on this line, or begin it with NodeName= or Name="}
		}
		return l, nil
	default:
		return l, &ParseError{File: file, Line: c.line, Key: c.key, Message: "not allowed at the beginning of a line: want NodeName, Name or AutoDetect"}
	}
	for _, a := range c.attrs {
		if err := l.set(file, c.line, a); err != nil {
			return l, err
		}
	}
	if l.Name == "" && (l.AutoDetect == "" || l.hasDevices()) {
		return l, &ParseError{File: file, Line: c.line, Key: "Name", Message: "missing: want such as Name=gpu"}
	}
	return l, nil
}

func (l *GresLine) set(file string, line int, a confPair) *ParseError {
	fail := func(format string, args ...any) *ParseError {
		return &ParseError{File: file, Line: line, Key: a.key, Message: fmt.Sprintf(format, args...)}
	}
	if a.value == "" {
		return fail("empty value: leave the key out or give it a value")
	}
	var err error
	switch strings.ToLower(a.key) {
	case "name":
		l.Name = a.value
	case "type":
		l.Type = a.value
	case "count":
		if l.Count, err = parseCount(a.value); err != nil {
			return fail("%q is no count: want a number of 1 or more, with K, M, G or T behind it for 1024, 1024x1024 and so on", a.value)
		}
	case "file", "files":
		if l.Files, err = hostlist.Expand(a.value); err != nil {
			return fail("%v", err)
		}
	case "multiplefiles":
		if l.MultipleFiles, err = hostlist.Expand(a.value); err != nil {
			return fail("%v", err)
		}
	case "cores", "cpus":
		l.Cores = a.value
	case "links", "link":
		if l.Links, err = parseInts(a.value); err != nil {
			return fail("%q: want one number per device, -1 for the device itself, such as -1,16,16,16", a.value)
		}
	case "flags":
		if l.Flags = strings.FieldsFunc(a.value, func(r rune) bool { return r == ',' }); len(l.Flags) == 0 {
			l.Flags = nil
		}
	case "autodetect":
		l.AutoDetect = a.value
	default:
		return fail("unknown key: want Name, Type, Count, File, MultipleFiles, Cores, Links, Flags or AutoDetect")
	}
	return nil
}

// parseCount reads a number with one of Slurm's suffixes.
func parseCount(s string) (uint64, error) {
	if s == "" {
		return 0, strconv.ErrSyntax
	}
	shift := 0
	if i := strings.IndexByte("kmgtp", s[len(s)-1]|0x20); i >= 0 {
		shift, s = 10*(i+1), s[:len(s)-1]
	}
	n, err := strconv.ParseUint(s, 10, 64-shift)
	if err == nil && n == 0 {
		err = strconv.ErrRange
	}
	return n << shift, err
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
