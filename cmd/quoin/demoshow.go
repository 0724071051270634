package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// screen is where the demo is shown.
type screen struct {
	w        io.Writer
	terminal bool
	color    bool
	width    int
}

// newScreen uses colours and the width of a terminal, where w is one.
func newScreen(w io.Writer) screen {
	s := screen{w: w, width: 100}
	f, ok := w.(*os.File)
	if !ok {
		return s
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return s
	}
	s.terminal = true
	s.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if size.Col > 0 {
		s.width = int(size.Col)
	}
	return s
}

func (s screen) printf(format string, args ...any) { fmt.Fprintf(s.w, format, args...) }

func (s screen) paint(code, text string) string {
	if !s.color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s screen) bold(text string) string  { return s.paint("1", text) }
func (s screen) dim(text string) string   { return s.paint("90", text) }
func (s screen) red(text string) string   { return s.paint("31", text) }
func (s screen) green(text string) string { return s.paint("32", text) }

// cut ends a line of text at a terminal's edge.
func (s screen) cut(text string, indent int) string {
	if r := []rune(text); s.terminal && len(r) > s.width-indent {
		return string(r[:max(s.width-indent-1, 1)]) + "…"
	}
	return text
}

// files prints the rendered files, long ones in part.
func (d *demonstration) files(files map[string]string) {
	const most, part = 34, 14
	for _, name := range fileNames(files) {
		d.printf("\n%s\n", d.bold(name))
		lines := strings.Split(strings.TrimRight(files[name], "\n"), "\n")
		shown := len(lines)
		if shown > most {
			shown = part
		}
		for _, l := range lines[:shown] {
			if strings.HasPrefix(l, "#") {
				l = d.dim(l)
			}
			d.printf("  %s\n", l)
		}
		if shown < len(lines) {
			d.printf("  %s\n", d.dim(fmt.Sprintf("… %d more lines", len(lines)-shown)))
		}
	}
}

// self is how the user started this program.
func self() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/quoin"
	}
	return os.Args[0]
}

func (d *demonstration) next() {
	d.printf("\n%s\n", d.bold("Try next"))
	for _, t := range [][2]string{
		{self() + " demo --watch", "a day of trouble, and what it changes"},
		{self() + " demo mixed", "another site; --list has them all, or write your own"},
		{self() + " demo --format conf --slurm-version 24.11", "for an older Slurm"},
		{"kubectl get nodes -o json | " + self() + " render --nodes -", "your own cluster, nothing installed"},
	} {
		d.printf("  %s\n      %s\n", t[0], d.dim(t[1]))
	}
	d.printf("\n")
	d.place()
}

// place says where the files are.
func (d *demonstration) place() {
	if d.keeps {
		d.printf("The files are in %s\n", d.store.Place(d.pub))
	} else {
		d.printf("Nothing is left on disk; --store DIR keeps the reports and files\n")
	}
}

// contentOf is what the store should hold of a machine that it held was of.
func contentOf(m *simulated.Machine, was written) (written, error) {
	if !m.Exists {
		return written{}, nil
	}
	labels, err := json.Marshal(map[string]any{"labels": m.Labels})
	if err != nil {
		return written{}, fmt.Errorf("write labels: %w", err)
	}
	if m.Report == nil {
		return written{labels, was.report}, nil
	}
	report, err := topology.EncodeReport(m.Report)
	return written{labels, report}, err
}

// putChanged calls put where is differs from was, and removes path where
// nothing is left.
func putChanged(was, is []byte, path string, put func() error) error {
	switch {
	case is == nil:
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove from store: %w", err)
		}
	case !bytes.Equal(was, is):
		if err := put(); err != nil {
			return fmt.Errorf("write to store: %w", err)
		}
	}
	return nil
}
