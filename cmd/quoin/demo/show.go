package demo

import (
	"fmt"
	"strings"

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
		{d.Program + " demo --watch", "a day of trouble, and what it changes"},
		{d.Program + " demo mixed", "another site; --list has them all, or write your own"},
		{d.Program + " demo --format conf --slurm-version 24.11", "for an older Slurm"},
		{"kubectl get nodes -o json | " + d.Program + " render --nodes -", "your own cluster, nothing installed"},
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
