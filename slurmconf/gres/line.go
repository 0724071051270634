package gres

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
)

// Line is one line of gres.conf.
type Line struct {
	// Nodes is a host list; empty means every node.
	Nodes string
	// Name is the resource's, such as gpu; empty on a line that sets AutoDetect
	// only.
	Name string
	Type string
	// Count is the number of devices. It is 0 if the line leaves it out: then the
	// files are counted.
	Count uint64
	// Files are device files, one per device. Their order is the GRES index.
	Files []string
	// MultipleFiles are the files of one device, as a MIG instance has.
	MultipleFiles []string
	// Cores are ranges of Slurm's logical core indices, such as "0-71".
	Cores string
	// Links has one number per device, -1 for the device itself.
	Links []int
	Flags []string
	// AutoDetect is nvml, nvidia, full, off or another way of detection.
	AutoDetect string
	// Number is the line's in the file that Scan read. It is 0 of a line that was made.
	Number int
}

// HasFile reports whether the line has device files. slurmd ignores gpus without any.
func (l Line) HasFile() bool { return len(l.Files)+len(l.MultipleFiles) > 0 }

// Devices is how many devices the line gives. A line without files says so by Count.
func (l *Line) Devices() uint64 {
	switch {
	case len(l.Files) > 0:
		return uint64(len(l.Files))
	case len(l.MultipleFiles) > 0:
		return 1
	}
	return l.Count
}

// Render writes gres.conf, the lines in their order. A header becomes comment
// lines.
func Render(lines []Line, header string) ([]byte, error) {
	var b strings.Builder
	syntax.CommentLines(&b, header)
	for i, l := range lines {
		if err := l.check(); err != nil {
			return nil, fmt.Errorf("write gres.conf: line %d: %w", i+1, err)
		}
		l.write(&b)
	}
	return []byte(b.String()), nil
}

// MarshalText returns the line as gres.conf has it.
func (l Line) MarshalText() ([]byte, error) {
	text, err := Render([]Line{l}, "")
	return bytes.TrimSpace(text), err
}

// UnmarshalText reads one line of gres.conf.
func (l *Line) UnmarshalText(text []byte) error {
	lines, err := Parse("gres.conf", text)
	if err == nil && len(lines) != 1 {
		err = fmt.Errorf("%q: want one line of gres.conf", text)
	}
	if err == nil {
		*l = lines[0]
	}
	return err
}

// check refuses what would not read back as it is.
func (l *Line) check() error {
	if l.Name == "" && (l.AutoDetect == "" || l.hasDevices()) {
		return fmt.Errorf("no Name: want such as gpu")
	}
	words := append(append([]string{l.Nodes, l.Name, l.Type, l.Cores, l.AutoDetect}, l.Files...), l.MultipleFiles...)
	for _, w := range append(words, l.Flags...) {
		if strings.ContainsAny(w, " \t\r\n\v\f\\#\"") {
			return fmt.Errorf("%q has a character that cannot be written: take out spaces, quotes, '#' and '\\'", w)
		}
	}
	for _, w := range slices.Concat(l.Files, l.MultipleFiles, l.Flags) {
		if w == "" || strings.ContainsAny(w, ",[]") {
			return fmt.Errorf("%q cannot be an item of a list: want it without commas and brackets, and not empty", w)
		}
	}
	return nil
}

func (l *Line) hasDevices() bool {
	return l.Type != "" || l.Count != 0 || len(l.Files) > 0 || len(l.MultipleFiles) > 0 || l.Cores != "" || len(l.Links) > 0 || len(l.Flags) > 0
}

func (l *Line) write(b *strings.Builder) {
	start := b.Len()
	pair := func(key, value string) {
		if value == "" {
			return
		}
		if b.Len() > start {
			b.WriteByte(' ')
		}
		b.WriteString(key)
		b.WriteByte('=')
		b.WriteString(value)
	}
	pair("NodeName", l.Nodes)
	pair("Name", l.Name)
	pair("Type", l.Type)
	if l.Count != 0 {
		pair("Count", strconv.FormatUint(l.Count, 10))
	}
	pair("File", fileList(l.Files))
	pair("MultipleFiles", strings.Join(l.MultipleFiles, ","))
	pair("Cores", l.Cores)
	pair("Links", syntax.JoinNumbers(l.Links))
	pair("Flags", strings.Join(l.Flags, ","))
	pair("AutoDetect", l.AutoDetect)
	b.WriteByte('\n')
}

// fileList writes files as ranges if that keeps their order.
func fileList(files []string) string {
	if len(files) < 2 {
		return strings.Join(files, "")
	}
	list := hostlist.Compress(files)
	if back, err := hostlist.Expand(list); err == nil && slices.Equal(back, files) {
		return list
	}
	return strings.Join(files, ",")
}

// ReadCount reads a count, with at most one of the suffixes K, M, G, T
// and P for 1024 and its powers. Slurm takes other texts too, and reads some of them
// otherwise than they look.
func ReadCount(s string) (n uint64, ok bool) {
	shift := 0
	if s != "" {
		if i := strings.IndexByte("kmgtp", s[len(s)-1]|0x20); i >= 0 {
			shift, s = 10*(i+1), s[:len(s)-1]
		}
	}
	n, err := strconv.ParseUint(s, 10, 64-shift)
	return n << shift, err == nil
}
