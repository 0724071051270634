package picture

import (
	_ "embed" // the page's template
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

//go:embed page.tmpl
var pageText string

var pages = template.Must(template.New("page").Parse(pageText))

// SVG draws the blocks as racks: a column for each block with a cell for each node, the
// lowest tray at the bottom. facts give the nodes' health.
func SVG(w io.Writer, plan *placement.Plan, facts []topology.Facts) error {
	return execute(w, "svg", pageOf(plan, facts))
}

// HTML writes a page that needs nothing beside it: the same drawing, with the facts of each
// node, a search, and what is wrong.
func HTML(w io.Writer, plan *placement.Plan, facts []topology.Facts) error {
	return execute(w, "page", pageOf(plan, facts))
}

// Drawings are the forms beside text, by name.
var Drawings = map[string]func(io.Writer, *placement.Plan, []topology.Facts) error{"svg": SVG, "html": HTML}

func execute(w io.Writer, name string, p *page) error {
	if err := pages.ExecuteTemplate(w, name, p); err != nil {
		return fmt.Errorf("draw the page: %w", err)
	}
	return nil
}

// page is what the templates show.
type page struct {
	Summary       []string
	Legend        []legend
	Racks         []rack
	Width, Height int
	Cell          size // of a node
	Names         bool // cells are large enough for names
	// Nodes are the facts of all nodes, in the order of the cells' numbers.
	Nodes    []node
	Apart    []group
	Problems []topology.Problem
}

type legend struct {
	Class, Name string
	Count       int
}

type size struct{ W, H int }

// rack is a block as it stands.
type rack struct {
	Name, Share string
	X, Y        int
	Cells       []cell
}

// cell is a place of a rack; At is the node's number, -1 for an empty place.
type cell struct {
	X, Y        int
	Class, Name string
	At          int
}

// node is what the page tells of a node.
type node struct {
	Name     string   `json:"name"`
	Node     string   `json:"node,omitempty"`
	Block    string   `json:"block,omitempty"`
	Switch   string   `json:"switch,omitempty"`
	State    string   `json:"state"`
	Source   string   `json:"source,omitempty"`
	Reason   string   `json:"reason"`
	Message  string   `json:"message,omitempty"`
	GPUs     string   `json:"gpus,omitempty"`
	Place    string   `json:"place,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// group are nodes in no block for one reason.
type group struct {
	Reason, Why string
	Nodes       string
	Count       int
}

// The sizes of the drawing, in pixels. Above maxNamed nodes the cells have no names.
const (
	maxNamed  = 2000
	pageWidth = 1200
	gap       = 14
	headRoom  = 20 // above a rack, for its name
)

func pageOf(plan *placement.Plan, facts []topology.Facts) *page {
	d := &drawer{o: Options{Width: 1 << 20}, states: statesOf(plan, facts), trays: traysOf(facts), seen: map[state]bool{}}
	var summary strings.Builder
	d.w = &summary
	d.summary(plan)
	p := &page{Summary: strings.Split(strings.TrimSpace(summary.String()), " · "), Names: len(plan.Placements) <= maxNamed, Cell: size{9, 9}, Problems: plan.Problems}
	if p.Names {
		p.Cell = size{112, 15}
	}
	at := p.addNodes(plan, facts, d)
	p.addRacks(plan, d, at)
	counts := map[state]int{}
	for i := range plan.Placements {
		counts[d.stateOf(plan.Placements[i].SlurmName)]++
	}
	for s, l := range looks {
		if s := state(s); counts[s] > 0 || d.seen[s] {
			p.Legend = append(p.Legend, legend{classOf(s), l.name, counts[s]})
		}
	}
	p.addApart(plan)
	return p
}

// classOf is the class of a state's cells.
func classOf(s state) string { return strings.ReplaceAll(looks[s].short, " ", "-") }

// addNodes adds the facts of all nodes and returns their numbers.
func (p *page) addNodes(plan *placement.Plan, facts []topology.Facts, d *drawer) map[string]int {
	at, reports := map[string]int{}, map[string]*topology.Node{}
	for i := range facts {
		reports[facts[i].SlurmName] = facts[i].Report
	}
	for i := range plan.Placements {
		pl := &plan.Placements[i]
		n := node{Name: pl.SlurmName, Block: pl.Block, Switch: pl.Switch, State: looks[d.stateOf(pl.SlurmName)].name, Source: pl.Source, Reason: pl.Reason, Message: pl.Message}
		if pl.Node != pl.SlurmName {
			n.Node = pl.Node
		}
		if r := reports[pl.SlurmName]; r != nil {
			if len(r.GPUs) > 0 {
				n.GPUs = fmt.Sprintf("%d × %s", len(r.GPUs), r.GPUs[0].Product)
			}
			if r.Platform != nil {
				n.Place = fmt.Sprintf("slot %d, tray %d", r.Platform.Slot, r.Platform.Tray)
				if r.Platform.ChassisSerial != "" {
					n.Place = "chassis " + r.Platform.ChassisSerial + ", " + n.Place
				}
			}
			for _, problem := range r.Problems {
				n.Problems = append(n.Problems, problem.Reason+": "+problem.Message)
			}
		}
		at[pl.SlurmName] = len(p.Nodes)
		p.Nodes = append(p.Nodes, n)
	}
	return at
}

// addRacks places the racks side by side, in as many rows as they need.
func (p *page) addRacks(plan *placement.Plan, d *drawer, at map[string]int) {
	x, y, tallest := gap, gap, 0
	for i := range plan.Blocks {
		b := &plan.Blocks[i]
		places := d.inTrays(b.Nodes, plan.BaseOf(b))
		if x+p.Cell.W > pageWidth-gap && x > gap {
			x, y, tallest = gap, y+tallest+gap, 0
		}
		r := rack{Name: b.Name, Share: fmt.Sprintf("%d/%d", len(b.Nodes), plan.BaseOf(b)), X: x, Y: y + headRoom - 6}
		for tray, name := range places {
			s := d.stateOf(name)
			d.seen[s] = true
			c := cell{X: x, Y: y + headRoom + (len(places)-1-tray)*(p.Cell.H+2), Class: classOf(s), Name: name, At: -1}
			if number, known := at[name]; known {
				c.At = number
			}
			r.Cells = append(r.Cells, c)
		}
		p.Racks = append(p.Racks, r)
		tallest = max(tallest, headRoom+len(places)*(p.Cell.H+2))
		x += p.Cell.W + gap
		p.Width, p.Height = max(p.Width, x), y+tallest+gap
	}
}

// addApart adds the nodes in no block, by reason.
func (p *page) addApart(plan *placement.Plan) {
	byReason := map[string][]string{}
	for i := range plan.Placements {
		if pl := &plan.Placements[i]; pl.Block == "" {
			byReason[pl.Reason] = append(byReason[pl.Reason], pl.SlurmName)
		}
	}
	for reason, names := range byReason {
		p.Apart = append(p.Apart, group{reason, whyLeftOut(reason), shortList(names, 1<<20), len(names)})
	}
	slices.SortFunc(p.Apart, func(a, b group) int { return strings.Compare(a.Reason, b.Reason) })
}
