package syntax

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// Include opens a file that a line `Include FILE` names. It returns the file's name for
// messages. Its error is ErrNoFile if there is no such file.
type Include func(file string) (name string, data []byte, err error)

// ReasonInclude is the reason of a line Include that could not be followed.
const ReasonInclude = "Include"

// ErrNoFile is returned for a file that is not there.
var ErrNoFile = errors.New("no such file")

// The bounds of what one file may include. No site comes near them. A file that includes
// itself ends Slurm, which can open no more files.
const (
	maxIncludeDepth = 16
	maxIncludes     = 1024
	maxIncludeBytes = 64 << 20
)

// Included says where the lines of a file come from that includes others.
type Included struct {
	// Unread says which lines Include could not be followed, and what that means.
	Unread []topology.Finding
	spans  []span // empty if the file includes nothing
}

// span is lines that follow each other in one file.
type span struct {
	at   int // of the first line in the joined text
	file string
	line int // of the first line in the file
}

// At returns the file and the line in it of a line of the joined text. name is the file
// that includes the others.
func (in *Included) At(name string, line int) (file string, number int) {
	if in == nil || len(in.spans) == 0 {
		return name, line
	}
	i, found := slices.BinarySearchFunc(in.spans, line, func(s span, line int) int { return s.at - line })
	if !found {
		i = max(i-1, 0)
	}
	s := in.spans[i]
	return s.file, s.line + line - s.at
}

// Join puts the lines of included files in place of the lines Include of slurm.conf,
// topology.conf and gres.conf, as Slurm reads them. A line that cannot be followed stays.
// Without include none can.
func Join(name string, data []byte, include Include) (joined []byte, in *Included) {
	j := joiner{include: include, in: &Included{}}
	text := string(data)
	if !strings.Contains(text, `\`) && !strings.Contains(strings.ToLower(text), "include") {
		return data, j.in
	}
	j.file(name, text, 0)
	return []byte(j.text.String()), j.in
}

type joiner struct {
	include Include
	in      *Included
	text    strings.Builder
	lines   int // of text
	files   int // that were included
	// cluster is ClusterName, which %c in the name of an included file stands for.
	cluster string
}

func (j *joiner) file(name, text string, depth int) {
	for number := 1; text != ""; {
		line, rest, next := nextConfLine(text, number)
		raw := text[:len(text)-len(rest)]
		if file, ok := cutInclude(line); ok && j.follow(name, number, file, depth) {
			raw = ""
		}
		j.add(name, number, raw)
		for rest := strings.TrimLeft(line, " \t\r\n\v\f"); rest != ""; {
			key, value, tail, ok := cutPair(rest)
			if !ok {
				break
			}
			if strings.ToLower(key) == "clustername" {
				j.cluster = strings.ToLower(value)
			}
			rest = strings.TrimLeft(tail, " \t\r\n\v\f")
		}
		text, number = rest, next
	}
}

// add adds lines of a file. The last line of a file may have no end.
func (j *joiner) add(name string, number int, raw string) {
	if raw == "" {
		return
	}
	j.in.spans = append(j.in.spans, span{j.lines + 1, name, number})
	if n := len(j.in.spans); n > 1 {
		if last := j.in.spans[n-2]; last.file == name && number-last.line == j.lines+1-last.at {
			j.in.spans = j.in.spans[:n-1] // they follow the lines before
		}
	}
	if !strings.HasSuffix(raw, "\n") {
		raw += "\n"
	}
	j.text.WriteString(raw)
	j.lines += strings.Count(raw, "\n")
}

// follow adds the lines of an included file, or why it cannot.
func (j *joiner) follow(from string, number int, file string, depth int) bool {
	if j.include == nil {
		j.unread(topology.Unknown, from, number, "put its lines into this file", "%s is included and was not looked into", file)
		return false
	}
	const remedy = "write the file, or take the line out; a name without a whole path is beside slurm.conf"
	if strings.Contains(file, "%c") && j.cluster == "" {
		j.unread(topology.Fatal, from, number, "write the name of the cluster in place of %c", "%s: no ClusterName stands before it in the file, which %%c is: Slurm refuses the whole file", hostlist.Shorten(file))
		return false
	}
	j.files++
	if depth >= maxIncludeDepth || j.files > maxIncludes || j.text.Len() > maxIncludeBytes {
		j.unread(topology.Fatal, from, number, "let no file include itself", "files include each other more than %d deep, or more than %d files or %d MiB: Slurm does not start with a file that includes itself", maxIncludeDepth, maxIncludes, maxIncludeBytes>>20)
		return false
	}
	name, data, err := j.include(strings.ReplaceAll(file, "%c", j.cluster))
	switch {
	case errors.Is(err, ErrNoFile):
		j.unread(topology.Fatal, from, number, remedy, "%s is not there: Slurm waits a minute for it and then does not start", hostlist.Shorten(file))
		return false
	case err != nil:
		j.unread(topology.Unknown, from, number, "let this command read it", "%v", err)
		return false
	}
	j.file(name, string(data), depth+1)
	j.add(name, strings.Count(string(data), "\n")+1, "\n") // ends a line that goes on
	return true
}

func (j *joiner) unread(severity topology.Severity, file string, line int, remedy, format string, args ...any) {
	j.in.Unread = append(j.in.Unread, topology.Finding{Subject: topology.Subject{File: file, Line: line}, Severity: severity, Reason: ReasonInclude, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}
