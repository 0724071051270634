package picture

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/topology"
)

// forest draws the switches of a plan.
type forest struct {
	*drawer
	byName map[string]*topology.Switch
	blocks map[string]string // the nodes of a block, joined -> its name
	folded bool              // leaves are counted, not drawn
	most   int               // rows to draw
	rows   int
}

// tree draws the switches from their roots down.
func (d *drawer) tree(plan *topology.Plan) {
	switches := plan.Switches()
	if len(switches) == 0 {
		return
	}
	f := &forest{drawer: d, byName: make(map[string]*topology.Switch, len(switches)), blocks: map[string]string{}, folded: len(switches) > maxRows, most: maxRows}
	if f.folded {
		f.most = maxRows / 4
	}
	for _, b := range d.racks {
		if len(b.Nodes) > 0 {
			f.blocks[strings.Join(b.Nodes, ",")] = b.Name
		}
	}
	below := map[string]bool{}
	for i := range switches {
		f.byName[switches[i].Name] = &switches[i]
		for _, c := range switches[i].Children {
			below[c] = true
		}
	}
	title := "Switches"
	if source := plan.SwitchSource(); source != "" {
		title += ", by " + source
	}
	d.printf("%s\n", d.paint(bold, title))
	for i := range switches {
		if s := &switches[i]; !below[s.Name] {
			f.branch(s, "  ", "", 0)
		}
	}
	if f.rows > f.most {
		d.printf("  %s\n", d.paint(dim, fmt.Sprintf("and %d more rows", f.rows-f.most)))
	}
	d.printf("\n")
}

// branch draws a switch and what is below it. indent is drawn before the
// children, mark before the switch itself, whose name takes width columns.
func (f *forest) branch(s *topology.Switch, indent, mark string, width int) {
	leaves := f.folded && len(s.Children) > 0 && f.onlyLeaves(s)
	if f.rows++; f.rows <= f.most {
		f.row(s, fmt.Sprintf("%s%s%-*s", indent, mark, width, s.Name), leaves)
	}
	if leaves {
		return
	}
	switch mark {
	case "├─ ":
		indent += "│  "
	case "└─ ":
		indent += "   "
	}
	width = 0
	for _, c := range s.Children {
		width = max(width, len(c))
	}
	for i, c := range s.Children {
		child, ok := f.byName[c]
		if !ok {
			continue
		}
		mark := "├─ "
		if i == len(s.Children)-1 {
			mark = "└─ "
		}
		f.branch(child, indent, mark, width)
	}
}

func (f *forest) onlyLeaves(s *topology.Switch) bool {
	return !slices.ContainsFunc(s.Children, func(c string) bool { return f.byName[c] != nil && len(f.byName[c].Children) > 0 })
}

// row draws one switch: a leaf with its nodes, or with the block that has the
// same nodes; a parent of folded leaves with their number.
func (f *forest) row(s *topology.Switch, head string, folded bool) {
	switch {
	case folded:
		var nodes []string
		for _, c := range s.Children {
			if f.byName[c] != nil {
				nodes = append(nodes, f.byName[c].Nodes...)
			}
		}
		f.printf("%s  %s, %s  %s\n", head, countOf(len(s.Children), "leaf switch"), f.counted(nodes), f.names(s.Children, f.o.Width-utf8.RuneCountInString(head)-40))
	case len(s.Nodes) == 0:
		f.printf("%s\n", strings.TrimRight(head, " "))
	default:
		block := f.blocks[strings.Join(s.Nodes, ",")]
		if block != "" {
			f.printf("%s  %s\n", head, f.paint(dim, "all of "+block))
			return
		}
		const most = 36
		room := f.o.Width - utf8.RuneCountInString(head) - min(len(s.Nodes), most) - 4
		f.printf("%s  %s  %s\n", head, f.cells(s.Nodes, most), f.names(s.Nodes, room))
	}
}

// counted returns how many nodes there are, and how many of them are not healthy.
func (f *forest) counted(nodes []string) string {
	odd := 0
	for _, n := range nodes {
		if f.stateOf(n) > unreported {
			odd++
		}
	}
	if odd == 0 {
		return countOf(len(nodes), "node")
	}
	return countOf(len(nodes), "node") + ", " + f.paint(looks[degraded].color, fmt.Sprintf("%d not healthy", odd))
}
