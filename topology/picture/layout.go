package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// The sizes of the drawing, in pixels. Above maxNamed nodes the cells have no names.
const (
	maxNamed  = 2000
	edge      = 2  // around a cell
	lineRoom  = 13 // a line above the cells of a rack: its name, how many nodes it has, what is above it
	headRoom  = 4  // below these lines
	maxColumn = 36 // cells above each other
	maxShort  = 19 // letters of a text in one column
	maxBold   = 16 // letters of a rack's name, which is bold
)

type size struct{ W, H int }

// rackGroup are the racks of one topology or fabric.
type rackGroup struct {
	Title string
	Racks []rack
}

// rack is a block as it stands, or the nodes of a switch that are in no block.
type rack struct {
	// Name is the block, the switch or the reason. Share says how many nodes it has, and of how many.
	Name, Share string
	// Under are the switches above it.
	Under string
	// Short and ShortUnder fit above one column.
	Short, ShortUnder string
	Width, Height     int
	// Cell is the size of its cells, and Named says that they have names.
	Cell  size
	Named bool
	Cells []cell
	// columns are the names as they stand, from below.
	columns [][]string
}

// cell is a place of a rack, from the rack's corner; At is the node's number, -1 for an empty place.
type cell struct {
	X, Y        int
	Class, Name string
	At          int
	// Label is what is said of the cell aloud.
	Label string
}

// rackGroupsOf returns the racks of blocks, and of the nodes in no block.
func rackGroupsOf(plan *topology.Plan, d *drawer) (groups []rackGroup) {
	named, cellSize := len(plan.Nodes) <= maxNamed, size{9, 9}
	if named {
		cellSize = size{128, 16}
	}
	at := make(map[string]int, len(plan.Nodes))
	for i := range plan.Nodes {
		at[plan.Nodes[i].SlurmName] = i
	}
	draw := func(name, share, under string, columns [][]string) rack {
		r := rack{Name: name, Short: shortName(name, maxBold), Share: share, Under: under, ShortUnder: shortName(under, maxShort), Cell: cellSize, Named: named}
		for c, places := range columns {
			for tray, name := range places {
				s := d.stateOf(name)
				d.seen[s] = true
				number, known := at[name]
				if !known {
					number = -1
				}
				r.Cells = append(r.Cells, cell{X: c, Y: len(places) - 1 - tray, Class: classOf(s), Name: shortName(name, maxShort), At: number, Label: name + ": " + looks[s].short})
			}
		}
		r.columns = columns
		return r
	}
	above := parents(topology.ParentsOf(plan.Switches()))
	own := plan.BlockTopologies()
	blocks := d.racks
	for i := range own {
		var racks []rack
		for _, b := range blocks[:len(own[i].Blocks)] {
			racks = append(racks, draw(b.Name, shareOf(len(b.Nodes), b.base), strings.Join(above.path(d.leafOf(b.Nodes)), " · "), d.columns(b.Nodes, b.base)))
		}
		blocks = blocks[len(own[i].Blocks):]
		groups = append(groups, rackGroup{titleOf(plan, own, &own[i]), racks})
	}
	for _, g := range d.apart(plan, above) {
		var racks []rack
		for _, r := range g.racks {
			racks = append(racks, draw(r.name, countOf(len(r.nodes), "node"), "", inColumns(inOrder(r.nodes))))
		}
		groups = append(groups, rackGroup{g.title, racks})
	}
	for _, g := range groups {
		g.stand()
	}
	return groups
}

// stand places the cells of all racks below heads of one height.
func (g *rackGroup) stand() {
	lines := 1
	for i := range g.Racks {
		switch r := &g.Racks[i]; {
		case r.Named && r.Under != "":
			lines = 3
		case r.Named:
			lines = max(lines, 2)
		}
	}
	for i := range g.Racks {
		g.Racks[i].stand(lines*lineRoom + headRoom)
	}
}

// shortName leaves out the middle of a name of more than most letters.
func shortName(name string, most int) string {
	if r := []rune(name); len(r) > most {
		return string(r[:4]) + "…" + string(r[len(r)-most+5:])
	}
	return name
}

// shareOf says how many nodes a block has, and how many it should have. A block of several base blocks has
// more than the base.
func shareOf(nodes, base int) string {
	if nodes > base {
		return fmt.Sprintf("%s, base %d", countOf(nodes, "node"), base)
	}
	return fmt.Sprintf("%d of %s", nodes, countOf(base, "node"))
}

// stand gives the cells, which have the numbers of their column and row, their places below head.
func (r *rack) stand(head int) {
	rows := 0
	for _, c := range r.columns {
		rows = max(rows, len(c))
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		c.X, c.Y = edge+c.X*(r.Cell.W+edge), head+(rows-len(r.columns[c.X])+c.Y)*(r.Cell.H+edge)
	}
	r.Width, r.Height = edge+len(r.columns)*(r.Cell.W+edge), head+rows*(r.Cell.H+edge)
}

// titleOf names one of a plan's own block topologies.
func titleOf(plan *topology.Plan, own []topology.Topology, t *topology.Topology) string {
	what := "NVLink blocks"
	if plan.ByLeaf {
		what = "Blocks of leaf switches"
	}
	title := fmt.Sprintf("%s, block sizes %s", t.Name, sizesText(t.Sizes))
	switch {
	case len(own) == 1:
		title = what + " of topology " + title
	case t.Fabric != "" && !strings.HasSuffix(t.Name, t.Fabric):
		title += ", below " + t.Fabric
	}
	return title
}

// leafOf names the leaf switch of nodes, if they have one and the same.
func (d *drawer) leafOf(nodes []string) string {
	if len(nodes) == 0 || slices.ContainsFunc(nodes, func(n string) bool { return d.places[n].Leaf != d.places[nodes[0]].Leaf }) {
		return ""
	}
	return d.places[nodes[0]].Leaf
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

// apart are the nodes in no block: those below a switch by their leaf, a group for the leaves below the same
// switches, and the others by reason.
func (d *drawer) apart(plan *topology.Plan, above parents) []apartGroup {
	leaves, byReason := "In no block, by leaf switch", apartGroup{title: "In no block and below no switch, by reason"}
	if len(d.racks) == 0 {
		leaves, byReason.title = "Leaf switches", "Below no switch, by reason"
	}
	var bySwitch []apartGroup
	for i := range plan.Nodes {
		pl := &plan.Nodes[i]
		switch at := d.places[pl.SlurmName]; {
		case at.Block != "":
		case at.Leaf != "":
			title := leaves
			if path := above.path(above[at.Leaf]); len(path) > 0 {
				title += " below " + strings.Join(path, ", below ")
			}
			i := slices.IndexFunc(bySwitch, func(g apartGroup) bool { return g.title == title })
			if i < 0 {
				i, bySwitch = len(bySwitch), append(bySwitch, apartGroup{title: title})
			}
			bySwitch[i].add(at.Leaf, pl.SlurmName)
		default:
			byReason.add(pl.Reason, pl.SlurmName)
		}
	}
	slices.SortStableFunc(bySwitch, func(a, b apartGroup) int { return cmp.Compare(a.title, b.title) })
	var out []apartGroup
	for _, g := range append(bySwitch, byReason) {
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
