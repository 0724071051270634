package picture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// group are nodes in no block for one reason.
type group struct {
	Reason string `json:"reason"`
	Why    string `json:"why"`
	Nodes  string `json:"nodes"`
	Count  int    `json:"count"`
	names  []string
}

// groupsOf are the nodes in no block, by reason. Without any block they are the nodes below no switch.
func groupsOf(plan *topology.Plan, d *drawer) []group {
	byReason := map[string][]string{}
	for i := range plan.Nodes {
		pl := &plan.Nodes[i]
		if at := d.places[pl.SlurmName]; at.Block == "" && (len(d.racks) > 0 || at.Leaf == "") {
			byReason[pl.Reason] = append(byReason[pl.Reason], pl.SlurmName)
		}
	}
	var out []group
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		names := byReason[reason] // they stand beside why, which is short
		out = append(out, group{reason, cut(cmp.Or(topology.Explain(reason).Meaning, "no place"), 48), hostlist.Compress(names), len(names), names})
	}
	return out
}

// leftOut lists the nodes in no block.
func (d *drawer) leftOut(plan *topology.Plan) {
	groups := groupsOf(plan, d)
	if len(groups) == 0 {
		return
	}
	what := "In no block"
	switch {
	case len(d.racks) > 0:
	case len(plan.Switches()) > 0:
		what = "Below no switch"
	default:
		what = "In no block and below no switch"
	}
	d.printf("%s\n", d.paint(bold, what))
	width := 0
	for _, g := range groups {
		width = max(width, len(g.Reason)+len(g.Why))
	}
	for _, g := range groups {
		head := fmt.Sprintf("  %5d  %-*s", g.Count, width+2, g.Reason+": "+g.Why)
		d.printf("%s  %s\n", head, d.paint(dim, shortList(g.names, d.o.Width-utf8.RuneCountInString(head)-2)))
	}
	d.printf("\n")
}

func (d *drawer) problems(plan *topology.Plan) {
	if len(plan.Problems) == 0 {
		return
	}
	d.printf("%s\n", d.paint(bold, countOf(len(plan.Problems), "problem")))
	for _, line := range d.o.Problems {
		text := strings.TrimLeft(line, " ")
		indent := 2 + len(line) - len(text)
		for _, part := range hostlist.Wrap(printable(text), d.o.Width-indent) {
			d.printf("%*s%s\n", indent, "", d.paint(looks[degraded].color, part))
		}
	}
	d.printf("\n")
}

// printable turns control characters into spaces, because they could change a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// cut ends text that is longer than width columns with an ellipsis.
func cut(text string, width int) string {
	text = printable(text)
	if r := []rune(text); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return text
}
