package picture

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology/placement"
)

// The sizes of the drawing, in pixels. Above maxNamed nodes the cells have no names.
const (
	maxNamed  = 2000
	pageWidth = 1220
	gap       = 14
	headRoom  = 20 // above a rack, for its name
	groupRoom = 24 // above a group of racks
	maxColumn = 36 // cells above each other
	letter    = 7  // of a title
	maxShort  = 15 // letters of a name above one column
)

// layout is where everything stands.
type layout struct {
	Groups        []rackGroup
	Width, Height int
	Cell          size // of a node
	Names         bool // cells are large enough for names
}

type size struct{ W, H int }

// rackGroup are the racks of one topology or fabric.
type rackGroup struct {
	Title string
	Y     int // of the title
	Racks []rack
}

// rack is a block as it stands, or the nodes of a switch that are in no block.
type rack struct {
	Name, Share string
	// Short is the name as it fits above one column.
	Short string
	// Under says what is above it.
	Under string
	X, Y  int
	Width int
	Cells []cell
}

// cell is a place of a rack; At is the node's number, -1 for an empty place.
type cell struct {
	X, Y        int
	Class, Name string
	At          int
	// Label is what is said of the cell aloud.
	Label string
}

// pen places racks side by side, in as many rows as they need.
type pen struct {
	*layout
	x, y, tallest int
}

func layoutOf(plan *placement.Plan, d *drawer) *layout {
	l := &layout{Names: len(plan.Placements) <= maxNamed, Cell: size{9, 9}}
	if l.Names {
		l.Cell = size{112, 16}
	}
	p := &pen{layout: l, x: gap, y: gap / 2}
	at := make(map[string]int, len(plan.Placements))
	for i := range plan.Placements {
		at[plan.Placements[i].SlurmName] = i
	}
	draw := func(name, share, under string, columns [][]string) {
		r := rack{Name: name, Short: shortName(name), Share: share, Under: under}
		for c, places := range columns {
			for tray, name := range places {
				s := d.stateOf(name)
				d.seen[s] = true
				number, known := at[name]
				if !known {
					number = -1
				}
				r.Cells = append(r.Cells, cell{X: c, Y: len(places) - 1 - tray, Class: classOf(s), Name: name, At: number, Label: name + ": " + looks[s].short})
			}
		}
		p.add(r, columns)
	}
	leaf := leafOf(plan)
	for _, of := range blocksByTopology(plan) {
		p.begin(titleOf(plan, of[0].Topology))
		for i := range of {
			b := &of[i]
			base := plan.BaseOf(b)
			draw(b.Name, fmt.Sprintf("%d/%d", len(b.Nodes), base), leaf(b.Nodes), d.columns(b.Nodes, base))
		}
	}
	for _, g := range apartOf(plan) {
		p.begin(g.title)
		for _, r := range g.racks {
			draw(r.name, fmt.Sprint(len(r.nodes)), "", inColumns(inOrder(r.nodes)))
		}
	}
	l.Height = p.y + p.tallest + gap
	return l
}

// shortName leaves out the middle of a long name.
func shortName(name string) string {
	if r := []rune(name); len(r) > maxShort {
		return string(r[:4]) + "…" + string(r[len(r)-maxShort+5:])
	}
	return name
}

// begin begins a group below all that was drawn.
func (p *pen) begin(title string) {
	if p.tallest > 0 {
		p.y += p.tallest + gap
	}
	p.x, p.tallest = gap, 0
	p.Groups = append(p.Groups, rackGroup{Title: title, Y: p.y + groupRoom - 10})
	p.Width = max(p.Width, 2*gap+len(title)*letter)
	p.y += groupRoom
}

// add places a rack whose cells have the numbers of their column and row.
func (p *pen) add(r rack, columns [][]string) {
	height := 0
	for _, c := range columns {
		height = max(height, len(c))
	}
	r.Width = len(columns)*(p.Cell.W+2) - 2
	if p.x+r.Width > pageWidth-gap && p.x > gap {
		p.x, p.y, p.tallest = gap, p.y+p.tallest+gap, 0
	}
	r.X, r.Y = p.x, p.y+headRoom-6
	for i := range r.Cells {
		c := &r.Cells[i]
		c.X, c.Y = p.x+c.X*(p.Cell.W+2), p.y+headRoom+(height-len(columns[c.X])+c.Y)*(p.Cell.H+2)
	}
	g := &p.Groups[len(p.Groups)-1]
	g.Racks = append(g.Racks, r)
	p.tallest = max(p.tallest, headRoom+height*(p.Cell.H+2))
	p.x += r.Width + gap
	p.Width = max(p.Width, p.x)
}

// blocksByTopology are the blocks of each topology, in their order.
func blocksByTopology(plan *placement.Plan) [][]placement.Block {
	var out [][]placement.Block
	for i := range plan.Blocks {
		if last := len(out) - 1; last >= 0 && out[last][0].Topology == plan.Blocks[i].Topology {
			out[last] = append(out[last], plan.Blocks[i])
		} else {
			out = append(out, plan.Blocks[i:i+1:i+1])
		}
	}
	return out
}

func titleOf(plan *placement.Plan, name string) string {
	what := "NVLink blocks"
	if plan.ByLeaf {
		what = "Blocks of leaf switches"
	}
	i := slices.IndexFunc(plan.Topologies, func(t placement.Topology) bool { return t.Name == name })
	if i < 0 {
		return what
	}
	t := &plan.Topologies[i]
	title := fmt.Sprintf("%s of topology %s, block sizes %s", what, cmp.Or(t.Name, "default"), sizesText(t.BlockSizes))
	if t.Fabric != "" {
		title += ", below switch " + t.Fabric
	}
	return title
}

// leafOf returns a function that names the leaf switch of nodes, if they have one and the same.
func leafOf(plan *placement.Plan) func(nodes []string) string {
	leaves := make(map[string]string, len(plan.Placements))
	for i := range plan.Placements {
		leaves[plan.Placements[i].SlurmName] = plan.Placements[i].Switch
	}
	return func(nodes []string) string {
		if len(nodes) == 0 || slices.ContainsFunc(nodes, func(n string) bool { return leaves[n] != leaves[nodes[0]] }) {
			return ""
		}
		return leaves[nodes[0]]
	}
}

// columns are the nodes of a block as they stand: a column for each chassis if they stand in
// several, else one.
func (d *drawer) columns(nodes []string, base int) [][]string {
	byChassis := map[string][]string{}
	for _, n := range nodes {
		byChassis[d.chassis[n]] = append(byChassis[d.chassis[n]], n)
	}
	if len(byChassis) < 2 || len(byChassis[""]) > 0 || 2*len(byChassis) > len(nodes) { // a chassis of one node is no column
		return inColumns(d.inTrays(nodes, base))
	}
	var serials []string
	most := 0
	for serial, of := range byChassis {
		serials, most = append(serials, serial), max(most, len(of))
	}
	slices.Sort(serials)
	var out [][]string
	for _, serial := range serials {
		out = append(out, d.inTrays(byChassis[serial], max(most, base/len(serials))))
	}
	return out
}

// inColumns cuts a long column into several.
func inColumns(places []string) [][]string {
	if len(places) == 0 {
		return [][]string{{}}
	}
	columns := (len(places) + maxColumn - 1) / maxColumn
	return slices.Collect(slices.Chunk(places, (len(places)+columns-1)/columns))
}

// apartGroup are nodes in no block: by leaf switch, or for one reason.
type apartGroup struct {
	title string
	racks []apartRack
}

type apartRack struct {
	name  string
	nodes []string
}

// apartOf are the nodes in no block: those below a switch by their switch, the others by
// reason.
func apartOf(plan *placement.Plan) []apartGroup {
	bySwitch, byReason := apartGroup{title: "In no block, by leaf switch"}, apartGroup{title: "In no block and below no switch, by reason"}
	if len(plan.Blocks) == 0 {
		bySwitch.title, byReason.title = "Leaf switches", "Below no switch, by reason"
	}
	for i := range plan.Placements {
		pl := &plan.Placements[i]
		switch {
		case pl.Block != "":
		case pl.Switch != "":
			bySwitch.add(pl.Switch, pl.SlurmName)
		default:
			byReason.add(pl.Reason, pl.SlurmName)
		}
	}
	var out []apartGroup
	for _, g := range []apartGroup{bySwitch, byReason} {
		if len(g.racks) > 0 {
			slices.SortStableFunc(g.racks, func(a, b apartRack) int { return cmp.Compare(a.name, b.name) })
			out = append(out, g)
		}
	}
	return out
}

func (g *apartGroup) add(name, node string) {
	i := slices.IndexFunc(g.racks, func(r apartRack) bool { return r.name == name })
	if i < 0 {
		i, g.racks = len(g.racks), append(g.racks, apartRack{name: name})
	}
	g.racks[i].nodes = append(g.racks[i].nodes, node)
}
