package demo

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/quoin-hpc/quoin/slurmconf/publisher"
)

// files prints the rendered files. Of a long one it prints the first part.
func (d *demonstration) files(files map[string]string) {
	const most, part = 34, 14
	for _, name := range publisher.FileNames(files) {
		d.Printf("\n%s\n", d.Bold(name))
		lines := strings.Split(strings.TrimRight(files[name], "\n"), "\n")
		if len(lines) > most {
			lines = append(lines[:part], d.Dim(fmt.Sprintf("… %d more lines", len(lines)-part)))
		}
		for _, l := range lines {
			if strings.HasPrefix(l, "#") {
				l = d.Dim(l)
			}
			d.Printf("  %s\n", l)
		}
	}
}

func (d *demonstration) next() {
	d.Printf("\n%s\n", d.Bold("Try next"))
	for _, t := range [][2]string{
		{d.Demo + " --watch", "a day of trouble, and what it changes"},
		{d.Demo + " mixed", "another site; --list has them all, or write your own"},
		{d.Demo + " hgx-h100 --slurm-version 24.11", "switches alone, for an older Slurm"},
		{d.OwnCluster, "your own cluster, nothing installed"},
	} {
		d.Printf("  %s\n      %s\n", t[0], d.Dim(t[1]))
	}
	d.Printf("\n")
	d.place()
}

// place says where the files are.
func (d *demonstration) place() {
	if d.Store != "" {
		d.Printf("The files are in %s\n", d.store.Folder(d.Publication.Place()))
	} else {
		d.Printf("Nothing is left on disk; --store DIR keeps the reports and files\n")
	}
}

// change is a line that a file lost or got, without its indentation. under is the line
// above that it belongs to by its indentation.
type change struct {
	added       bool
	text, under string
}

// changesOf compares two files line by line.
func changesOf(before, after string) []change {
	var out []change
	above, aboveIndent := "", 0 // the last line with children, which both files have
	header := true
	for line := range strings.Lines(string(diff.Diff("before", []byte(before), "after", []byte(after)))) {
		sign, text := line[0], strings.TrimSuffix(line[1:], "\n")
		if sign == '@' {
			header, above = false, ""
			continue
		}
		trimmed := strings.TrimLeft(text, " ")
		indent := len(text) - len(trimmed)
		switch {
		case header:
		case sign == ' ':
			above, aboveIndent = strings.TrimPrefix(trimmed, "- "), indent
		case sign == '+' || sign == '-':
			c := change{added: sign == '+', text: trimmed}
			if indent > aboveIndent {
				c.under = above
			}
			out = append(out, c)
		}
	}
	return out
}
