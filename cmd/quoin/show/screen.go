package show

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// Table prints rows below the names of their columns. An empty cell is shown as a dash.
func Table(w io.Writer, columns []string, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(columns, "\t"))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = cmp.Or(cell, "-")
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // into memory or a terminal
}

// Screen is the output for people. A terminal gets colours, and lines within its width. A file or a
// pipe gets plain text.
type Screen struct {
	io.Writer
	// Color is whether text may have colours.
	Color bool
	// Width is the number of columns; 100 if the output is no terminal.
	Width    int
	terminal bool
}

// NewScreen returns a screen on w. A terminal gets colours unless $NO_COLOR or $TERM says no.
func NewScreen(w io.Writer) Screen {
	s := Screen{Writer: w, Width: 100}
	f, ok := w.(*os.File)
	if !ok {
		return s
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return s
	}
	s.terminal = true
	s.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if size.Col > 0 {
		s.Width = int(size.Col)
	}
	return s
}

// Printf prints as fmt.Printf does.
func (s Screen) Printf(format string, args ...any) { fmt.Fprintf(s.Writer, format, args...) }

func (s Screen) paint(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold, Dim, Red and Green return text that is shown so if there are colours.
func (s Screen) Bold(text string) string { return s.paint("1", text) }

// Dim is beside Bold.
func (s Screen) Dim(text string) string { return s.paint("90", text) }

// Red is beside Bold.
func (s Screen) Red(text string) string { return s.paint("31", text) }

// Green is beside Bold.
func (s Screen) Green(text string) string { return s.paint("32", text) }

// Cut ends a line of text at a terminal's edge.
func (s Screen) Cut(text string, indent int) string {
	if r := []rune(text); s.terminal && len(r) > s.Width-indent {
		return string(r[:max(s.Width-indent-1, 1)]) + "…"
	}
	return text
}
