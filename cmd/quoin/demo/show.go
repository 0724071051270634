package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// files prints the rendered files. Of a long one it prints the first part.
func (d *demonstration) files(files map[string]string) {
	const most, part = 34, 14
	for _, name := range fileNames(files) {
		d.Printf("\n%s\n", d.Bold(name))
		lines := strings.Split(strings.TrimRight(files[name], "\n"), "\n")
		shown := len(lines)
		if shown > most {
			shown = part
		}
		for _, l := range lines[:shown] {
			if strings.HasPrefix(l, "#") {
				l = d.Dim(l)
			}
			d.Printf("  %s\n", l)
		}
		if shown < len(lines) {
			d.Printf("  %s\n", d.Dim(fmt.Sprintf("… %d more lines", len(lines)-shown)))
		}
	}
}

func (d *demonstration) next() {
	d.Printf("\n%s\n", d.Bold("Try next"))
	for _, t := range [][2]string{
		{d.program + " demo --watch", "a day of trouble, and what it changes"},
		{d.program + " demo mixed", "another site; --list has them all, or write your own"},
		{d.program + " demo --format conf --slurm-version 24.11", "for an older Slurm"},
		{"kubectl get nodes -o json | " + d.program + " render --nodes -", "your own cluster, nothing installed"},
	} {
		d.Printf("  %s\n      %s\n", t[0], d.Dim(t[1]))
	}
	d.Printf("\n")
	d.place()
}

// place says where the files are.
func (d *demonstration) place() {
	if d.keeps {
		d.Printf("The files are in %s\n", d.store.Folder(d.pub.Place()))
	} else {
		d.Printf("Nothing is left on disk; --store DIR keeps the reports and files\n")
	}
}

// fileNames lists the files, the topology before gres.conf.
func fileNames(files map[string]string) []string {
	names := slices.Sorted(maps.Keys(files))
	slices.Reverse(names)
	return names
}

// contentOf returns what the store should hold for a machine. old is what it holds.
func contentOf(m *simulated.Machine, old written) (written, error) {
	if !m.Exists {
		return written{}, nil
	}
	labels, err := json.Marshal(map[string]any{"labels": m.Labels})
	if err != nil {
		return written{}, fmt.Errorf("write labels: %w", err)
	}
	if m.Report == nil {
		return written{labels, old.report}, nil
	}
	report, err := topology.EncodeReport(m.Report)
	return written{labels, report}, err
}

// putChanged calls put if the content changed, and removes path if there is none now.
func putChanged(old, content []byte, path string, put func() error) error {
	switch {
	case content == nil:
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove from store: %w", err)
		}
	case !bytes.Equal(old, content):
		if err := put(); err != nil {
			return fmt.Errorf("write to store: %w", err)
		}
	}
	return nil
}
