// Package picture draws a plan as text for terminals and as a page: where every node is, its
// state, and which nodes are left out.
package picture

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/topology"
)

// Options say how to draw.
type Options struct {
	// Color uses ANSI colours.
	Color bool
	// Width is how many columns a line may take; 0 is 100, less than 60 is 60.
	Width int
	// BlocksOnly leaves out the switch tree.
	BlocksOnly bool
	// Problems are the lines that say what is wrong with the plan. They are broken at the width.
	Problems []string
}

// maxRows bounds the blocks and switches that are drawn one by one. Above it each block
// is one cell, and only blocks that are short or have nodes that are not healthy get a row.
const maxRows = 40

const (
	bold  = "\x1b[1m"
	dim   = "\x1b[90m"
	reset = "\x1b[0m"
)

// drawer writes one picture.
type drawer struct {
	w      io.Writer
	o      Options
	states map[string]state
	places map[string]topology.Place
	racks  []block
	trays  map[string]int
	// chassis are the serial numbers of the chassis that nodes stand in.
	chassis map[string]string
	seen    map[state]bool
	err     error
}

// block is a block with the base block size of its topology.
type block struct {
	topology.Block
	base int
}

// blocksOf returns the blocks of all topologies.
func blocksOf(plan *topology.Plan) []block {
	var blocks []block
	whole := plan.BaseBlockSize() // of topologies that name no sizes
	for _, t := range plan.BlockTopologies() {
		base := whole
		if len(t.Sizes) > 0 {
			base = t.Sizes[0]
		}
		for _, b := range t.Blocks {
			blocks = append(blocks, block{b, base})
		}
	}
	return blocks
}

func newDrawer(w io.Writer, s *Site, o Options) *drawer {
	places := s.Plan.Places()
	return &drawer{w: w, o: o, states: statesOf(s, places), places: places, racks: blocksOf(s.Plan), trays: traysOf(s.Facts), chassis: chassisOf(s.Facts), seen: map[state]bool{}}
}

// Terminal draws the site: a row for each block with a cell for each node, the
// switch tree, and the nodes that have no place.
func Terminal(w io.Writer, site *Site, o Options) error {
	plan := site.Plan
	if o.Width == 0 {
		o.Width = 100
	}
	o.Width = max(o.Width, 60)
	d := newDrawer(w, site, o)
	d.summary(plan)
	if len(d.racks) > maxRows {
		d.manyBlocks()
	} else {
		d.blocks(d.racks)
	}
	if !o.BlocksOnly || len(d.racks) == 0 {
		d.tree(plan)
	}
	d.leftOut(plan)
	d.problems(plan)
	more := lists{d}
	more.said(site)
	more.jobs(site.Jobs)
	d.legend()
	return d.err
}

func (d *drawer) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format, args...)
	}
}

func (d *drawer) paint(color, text string) string {
	if !d.o.Color || text == "" {
		return text
	}
	return color + text + reset
}

// summary writes the counts in one line.
func (d *drawer) summary(plan *topology.Plan) {
	parts := []string{countOf(len(plan.Nodes), "node")}
	counts := [len(looks)]int{}
	for i := range plan.Nodes {
		counts[d.states[plan.Nodes[i].SlurmName]]++
	}
	for s := warned; s < missing; s++ {
		if counts[s] > 0 {
			parts = append(parts, d.paint(looks[s].color, fmt.Sprintf("%d %s", counts[s], looks[s].short)))
		}
	}
	if n := len(d.racks); n > 0 {
		var sizes []string
		for _, t := range plan.BlockTopologies() {
			if text := sizesText(t.Sizes); text != "" && !slices.Contains(sizes, text) {
				sizes = append(sizes, text)
			}
		}
		what := "NVLink block"
		switch {
		case plan.ByLeaf:
			what = "leaf block"
		case len(plan.Nodes) == 0, slices.ContainsFunc(plan.Nodes, func(p topology.Placement) bool { return p.Source == topology.SourceFile }):
			what = "block"
		}
		if parts = append(parts, countOf(n, what)); len(sizes) > 0 {
			parts = append(parts, "block sizes "+strings.Join(sizes, " and "))
		}
	}
	if n := len(plan.Switches()); n > 0 && !d.o.BlocksOnly {
		parts = append(parts, countOf(n, "switch"))
	}
	d.wrap(parts, " · ")
	d.printf("\n")
}

func sizesText(sizes []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", ","), "[]")
}

// countOf returns a number with a noun, such as "2 switches".
func countOf(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "ch"):
		what += "es"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// blocks draws a row for each block.
func (d *drawer) blocks(blocks []block) {
	if len(blocks) == 0 {
		return
	}
	width, widest, counts := 0, 0, len(share(18, 18))
	for _, b := range blocks {
		width, widest, counts = max(width, len(b.Name)), max(widest, b.base), max(counts, len(share(len(b.Nodes), b.base)))
	}
	const most = 36 // nodes of a block that get a cell each
	room := d.o.Width - width - counts - len("       ") - min(widest, most)
	for _, b := range blocks {
		d.printf("  %-*s  %s %s  %s\n", width, b.Name, d.cells(d.inTrays(b.Nodes, b.base), most), share(len(b.Nodes), b.base), d.names(b.Nodes, room))
	}
	d.printf("\n")
}

// share is how many nodes a block has, and how many it should have. A block of several base blocks has more
// than the base.
func share(n, of int) string {
	if n > of {
		return fmt.Sprintf("%3d, base %d", n, of)
	}
	return fmt.Sprintf("%3d/%d", n, of)
}

func (d *drawer) names(nodes []string, room int) string {
	if len(nodes) == 0 {
		return d.paint(dim, "placeholder")
	}
	return d.paint(dim, shortList(nodes, room))
}

// inTrays puts the nodes of a block at their trays if every node has a tray of its
// own, else side by side. A place without a node is empty.
func (d *drawer) inTrays(nodes []string, size int) []string {
	out := make([]string, max(size, len(nodes)))
	for _, n := range nodes {
		tray, ok := d.trays[n]
		if !ok || tray >= len(out) || out[tray] != "" {
			clear(out)
			copy(out, inOrder(nodes))
			return out
		}
		out[tray] = n
	}
	return out
}

// cells draws one cell for each place, at most most.
func (d *drawer) cells(nodes []string, most int) string {
	var b strings.Builder
	for i, n := range nodes {
		if i == most {
			b.WriteString(d.paint(dim, "+"))
			break
		}
		b.WriteString(d.cell(d.stateOf(n)))
	}
	return b.String()
}

func (d *drawer) cell(s state) string {
	d.seen[s] = true
	return d.paint(looks[s].color, looks[s].cell)
}

// manyBlocks draws one cell for each block, and a row for each that is short or has
// nodes that are not healthy. Nodes without a report count as healthy.
func (d *drawer) manyBlocks() {
	perRow := (d.o.Width - 10) / 10 * 10
	d.printf("  %s\n", d.paint(dim, fmt.Sprintf("a cell for each block, %d in a row", perRow)))
	var odd []block
	for i, b := range d.racks {
		if i%perRow == 0 {
			if i > 0 {
				d.printf("\n")
			}
			d.printf("  %6d  ", i+1)
		}
		worst := healthy
		for _, n := range b.Nodes {
			worst = max(worst, d.stateOf(n))
		}
		if worst <= unreported && len(b.Nodes) < b.base {
			worst = missing
		}
		if worst > unreported {
			odd = append(odd, b)
		}
		d.printf("%s", d.cell(worst))
	}
	d.printf("\n\n")
	shown := odd[:min(len(odd), maxRows/2)]
	d.blocks(shown)
	var parts []string
	if more := len(odd) - len(shown); more > 0 {
		parts = append(parts, countOf(more, "more block")+" with places missing or nodes that are not healthy")
	}
	if full := len(d.racks) - len(odd); full > 0 {
		parts = append(parts, countOf(full, "block")+" full and healthy")
	}
	d.printf("  %s\n\n", d.paint(dim, "not listed: "+strings.Join(parts, ", ")))
}

// legend explains the cells that were drawn.
func (d *drawer) legend() {
	var parts []string
	for s, l := range looks {
		if d.seen[state(s)] {
			parts = append(parts, d.paint(l.color, l.cell)+" "+l.name)
		}
	}
	d.wrap(parts, "   ")
}

// wrap writes the parts with sep between them, on as many lines as they need.
func (d *drawer) wrap(parts []string, sep string) {
	line, used := "", 0
	for _, p := range parts {
		n := columns(p)
		if used > 0 && used+utf8.RuneCountInString(sep)+n > d.o.Width {
			d.printf("%s\n", line)
			line, used = "", 0
		}
		if used > 0 {
			line += sep
			used += utf8.RuneCountInString(sep)
		}
		line += p
		used += n
	}
	if used > 0 {
		d.printf("%s\n", line)
	}
}

// columns counts what a terminal shows of text: colours take no room.
func columns(text string) int {
	n := 0
	for {
		before, after, found := strings.Cut(text, "\x1b[")
		n += utf8.RuneCountInString(before)
		if !found {
			return n
		}
		_, text, _ = strings.Cut(after, "m")
	}
}
