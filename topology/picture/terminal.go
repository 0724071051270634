// Package picture draws a plan: where every node is, how it is, and which are
// nowhere. It writes text for terminals.
package picture

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Options say how to draw.
type Options struct {
	// Color uses ANSI colours.
	Color bool
	// MaxRows bounds the blocks and switches that are drawn one by one; 0 is 40.
	MaxRows int
}

// state is how a node is, the worst last.
type state int

const (
	healthy state = iota
	kept          // its facts are missing or in the making; it stays where it was
	degraded
	missing // an empty place
)

var looks = [...]struct{ cell, color, name string }{
	healthy:  {"■", "\x1b[32m", "healthy"},
	kept:     {"◌", "\x1b[36m", "stays, its facts are missing or in progress"},
	degraded: {"▲", "\x1b[33m", "a GPU is unhealthy or lost"},
	missing:  {"·", "\x1b[90m", "no node"},
}

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
	seen   map[state]bool
	err    error
}

// Terminal draws the plan: a row for each block with a cell for each node, the
// switch tree, and the nodes that have no place. facts give the nodes' health.
func Terminal(w io.Writer, plan *topology.Plan, facts []topology.Facts, o Options) error {
	if o.MaxRows == 0 {
		o.MaxRows = 40
	}
	d := &drawer{w: w, o: o, states: statesOf(plan, facts), seen: map[state]bool{}}
	d.blocks(plan)
	d.tree(plan)
	d.nowhere(plan)
	d.problems(plan)
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

// statesOf decides how each node is.
func statesOf(plan *topology.Plan, facts []topology.Facts) map[string]state {
	out := make(map[string]state, len(facts))
	for i := range plan.Placements {
		if plan.Placements[i].Source == "previous" {
			out[plan.Placements[i].SlurmName] = kept
		}
	}
	for i := range facts {
		f := &facts[i]
		if f.Report == nil {
			continue
		}
		sick := slices.ContainsFunc(f.Report.Problems, func(p topology.Problem) bool { return strings.HasPrefix(p.Reason, "GPU") })
		for g := range f.Report.GPUs {
			if fab := f.Report.GPUs[g].Fabric; fab != nil && (fab.Status != "" || fab.Health == topology.HealthUnhealthy || fab.Health == topology.HealthLimitedCapacity) {
				sick = true
			}
		}
		if sick {
			out[f.SlurmName] = degraded
		}
	}
	return out
}

// cells draws one cell for each node and a place for each that is missing.
func (d *drawer) cells(nodes []string, size int) string {
	var b strings.Builder
	for i := range max(len(nodes), size) {
		s := missing
		if i < len(nodes) {
			s = d.states[nodes[i]]
		}
		d.seen[s] = true
		b.WriteString(d.paint(looks[s].color, looks[s].cell))
	}
	return b.String()
}

func (d *drawer) blocks(plan *topology.Plan) {
	if len(plan.Blocks) == 0 {
		return
	}
	sizes := strings.Trim(strings.ReplaceAll(fmt.Sprint(plan.BlockSizes), " ", ","), "[]")
	d.printf("%s  %d, block sizes %s\n", d.paint(bold, "NVLink blocks"), len(plan.Blocks), sizes)
	width := 0
	for _, b := range plan.Blocks {
		width = max(width, len(b.Name))
	}
	drawn, left, leftNodes := 0, 0, 0
	for _, b := range plan.Blocks {
		sick := slices.ContainsFunc(b.Nodes, func(n string) bool { return d.states[n] != healthy })
		if len(plan.Blocks) > d.o.MaxRows && (drawn >= d.o.MaxRows/2 && !sick || drawn >= d.o.MaxRows) {
			left++
			leftNodes += len(b.Nodes)
			continue
		}
		drawn++
		d.printf("  %-*s  %s %s  %s\n", width, b.Name, d.cells(b.Nodes, plan.BaseBlockSize), count(len(b.Nodes), plan.BaseBlockSize), d.paint(dim, span(b.Nodes)))
	}
	if left > 0 {
		d.printf("  %s\n", d.paint(dim, fmt.Sprintf("and %d more blocks of %d nodes", left, leftNodes)))
	}
	d.printf("\n")
}

func count(n, of int) string { return fmt.Sprintf("%3d/%d", n, of) }

// span names the first and the last of sorted nodes.
func span(nodes []string) string {
	switch len(nodes) {
	case 0:
		return "placeholder"
	case 1:
		return nodes[0]
	}
	return nodes[0] + " … " + nodes[len(nodes)-1]
}

// tree draws the switches from their roots down.
func (d *drawer) tree(plan *topology.Plan) {
	if len(plan.Switches) == 0 {
		return
	}
	byName := make(map[string]*topology.Switch, len(plan.Switches))
	below := map[string]bool{}
	for i := range plan.Switches {
		byName[plan.Switches[i].Name] = &plan.Switches[i]
		for _, c := range plan.Switches[i].Children {
			below[c] = true
		}
	}
	d.printf("%s  %d\n", d.paint(bold, "Network switches"), len(plan.Switches))
	rows := 0
	for i := range plan.Switches {
		if s := &plan.Switches[i]; !below[s.Name] {
			d.branch(s, byName, "  ", "", &rows)
		}
	}
	if rows > d.o.MaxRows {
		d.printf("  %s\n", d.paint(dim, fmt.Sprintf("and %d more switches", rows-d.o.MaxRows)))
	}
	d.printf("\n")
}

// branch draws a switch and what is below it. indent is drawn before the
// children, mark before the switch itself.
func (d *drawer) branch(s *topology.Switch, byName map[string]*topology.Switch, indent, mark string, rows *int) {
	if *rows++; *rows <= d.o.MaxRows {
		line := indent + mark + s.Name
		if len(s.Nodes) > 0 {
			line += "  " + d.cells(s.Nodes, 0) + "  " + d.paint(dim, span(s.Nodes))
		}
		d.printf("%s\n", line)
	}
	switch mark {
	case "├─ ":
		indent += "│  "
	case "└─ ":
		indent += "   "
	}
	for i, c := range s.Children {
		child, ok := byName[c]
		if !ok {
			continue
		}
		mark := "├─ "
		if i == len(s.Children)-1 {
			mark = "└─ "
		}
		d.branch(child, byName, indent, mark, rows)
	}
}

// nowhere lists the nodes that are in no block, or in no switch where there is
// no block, by reason.
func (d *drawer) nowhere(plan *topology.Plan) {
	type group struct {
		why   string
		nodes []string
	}
	var groups []group
	for _, pl := range plan.Placements {
		if pl.Block != "" || len(plan.Blocks) == 0 && pl.Switch != "" {
			continue
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.why == pl.Reason })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{why: pl.Reason})
		}
		groups[i].nodes = append(groups[i].nodes, pl.SlurmName)
	}
	if len(groups) == 0 {
		return
	}
	what := "In no block"
	if len(plan.Blocks) == 0 {
		what = "In no switch"
	}
	d.printf("%s\n", d.paint(bold, what))
	for _, g := range groups {
		d.printf("  %-22s %3d  %s\n", g.why, len(g.nodes), d.paint(dim, span(g.nodes)))
	}
	d.printf("\n")
}

func (d *drawer) problems(plan *topology.Plan) {
	if len(plan.Problems) == 0 {
		return
	}
	d.printf("%s  %d\n", d.paint(bold, "Problems"), len(plan.Problems))
	const most = 8
	for i, p := range plan.Problems {
		if i == most {
			d.printf("  %s\n", d.paint(dim, fmt.Sprintf("and %d more", len(plan.Problems)-most)))
			break
		}
		d.printf("  %s\n", d.paint(looks[degraded].color, p.String()))
	}
	d.printf("\n")
}

// legend explains the cells that were drawn.
func (d *drawer) legend() {
	var parts []string
	for s, l := range looks {
		if d.seen[state(s)] {
			parts = append(parts, d.paint(l.color, l.cell)+" "+l.name)
		}
	}
	if len(parts) > 0 {
		d.printf("%s\n", strings.Join(parts, "   "))
	}
}
