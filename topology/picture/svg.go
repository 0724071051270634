package picture

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// SVG draws the blocks as racks: a column for each block with a cell for each node, the
// lowest tray at the bottom. Below it is what the colours mean, and what Terminal lists. Each
// cell has a title with all that is said of its node.
func SVG(w io.Writer, s *Site) error {
	v, err := ViewOf(s)
	if err != nil {
		return err
	}
	v.draw.say(titlesOf(s))
	v.draw.below(s)
	return execute(w, "svg", v, PageOptions{})
}

// say gives each cell its title, by the numbers of nodes.
func (l *layout) say(titles []string) {
	for _, g := range l.Groups {
		for _, r := range g.Racks {
			for i := range r.Cells {
				if c := &r.Cells[i]; c.At >= 0 {
					c.Title = titles[c.At]
				}
			}
		}
	}
}

// line is a line of text below an SVG. One with a class has a cell before it.
type line struct {
	X, Y        int
	Class, Text string
}

// The sizes of lines below an SVG, in pixels and letters.
const (
	lineHeight  = 17
	belowLetter = 7
	belowWidth  = 130
)

// below lists below the drawing what its colours mean, and what is said of nodes and jobs.
func (l *drawing) below(s *Site) {
	var text strings.Builder
	d := lists{newDrawer(&text, s, Options{Width: belowWidth})}
	d.leftOut(s.Plan)
	d.problems(s.Plan)
	d.said(s)
	d.jobs(s.Jobs)
	y := l.Height
	add := func(class, text string) {
		l.Below = append(l.Below, line{gap, y, class, text})
		l.Whole.W = max(l.Whole.W, utf8.RuneCountInString(text)*belowLetter+2*gap)
		y += lineHeight
	}
	for _, of := range l.Legend {
		text := of.Name
		if of.Count > 0 {
			text += fmt.Sprintf(": %d", of.Count)
		}
		add(of.Class, text)
	}
	add("", "")
	for text := range strings.Lines(text.String()) {
		add("", strings.TrimSuffix(text, "\n"))
	}
	l.Whole = size{max(l.Width, l.Whole.W), y + gap}
}

// titlesOf says of each node all that is known, in a line.
func titlesOf(s *Site) []string {
	d := newDrawer(nil, s, Options{})
	jobs := map[string][]string{}
	for i := range s.Jobs {
		for _, n := range s.Jobs[i].Nodes {
			jobs[n] = append(jobs[n], strings.TrimSuffix("job "+s.Jobs[i].ID+" of "+s.Jobs[i].User, " of "))
		}
	}
	out := make([]string, len(s.Plan.Nodes))
	for i := range out {
		name := s.Plan.Nodes[i].SlurmName
		says := s.Said[name]
		words := says.words()
		parts := []string{looks[d.stateOf(name)].short}
		for _, part := range []struct{ what, text string }{{"Slurm ", strings.TrimSuffix(says.Slurm+", "+says.Why, ", ")}, {"IMEX ", words.IMEX}, {"place ", words.Drift}, {"fabric ", words.Fabric}} {
			if part.text != "" {
				parts = append(parts, part.what+part.text)
			}
		}
		out[i] = printable(name + ": " + strings.Join(append(parts, jobs[name]...), "; "))
	}
	return out
}
