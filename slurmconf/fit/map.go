package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// The kinds of units.
const (
	UnitBlock = "block"
	UnitLeaf  = "leaf switch"
)

// Judgement is how a running job lies in one topology, and whether that is as it asked.
type Judgement struct {
	Topology string
	// Unit is UnitBlock or UnitLeaf. Names are the units that have nodes of the job, in the order
	// of the file, and Nodes is how many each has. Apart is how many nodes are in no unit.
	Unit  string
	Names []string
	Nodes []int
	Apart int
	// Fewest is how many of these units are large enough for the job, if no other job were there. Of
	// segments that are larger than a block only the nodes count.
	Fewest int
	// Segment is the size of the job's segments, and Segments is how many the job has. At least
	// Split of them are not in one place as a segment must be. A job without --segment is one
	// segment. All are 0 for switches.
	Segment, Segments, Split int
}

// Map is the topologies of a Slurm cluster. It says where running jobs are in them, and whether
// Slurm obeys them.
type Map struct{ parts []*part }

// part is one topology.
type part struct {
	name  string
	first bool // that of partitions that name none
	unit  string
	sizes []int // of blocks
	units []topology.Unit
	of    map[string]int // the unit of each node
}

// NewMap reads the topologies.
func NewMap(topologies []topology.Topology) *Map {
	m := &Map{}
	for i := range topologies {
		t := &topologies[i]
		p := &part{name: t.Name, first: t.Default || len(topologies) == 1, unit: UnitLeaf, sizes: sizesOf(t), units: topology.UnitsOf(topologies[i : i+1]), of: map[string]int{}}
		if t.Kind == topology.KindBlock {
			p.unit = UnitBlock
		}
		for k := range p.units { // a flat topology has none
			for _, n := range p.units[k].Nodes {
				p.of[n] = k
			}
		}
		m.parts = append(m.parts, p)
	}
	return m
}

// Judge judges a job in each topology that has its nodes. If it is not known whether the job has
// segments, its Segment is less than 0. partitions are the topologies that partitions name. A
// partition that is not known counts as one that names none.
func (m *Map) Judge(j *slurmctld.Job, partitions map[string]string) (all []Judgement) {
	nodes, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return nil // Slurm's own list
	}
	for _, p := range m.parts {
		name := partitions[j.Partition]
		if judged, uses := p.judge(j, nodes, name == p.name || name == "" && p.first); uses {
			all = append(all, judged)
		}
	}
	return all
}

// judge judges a job on these nodes. rules says whether Slurm places the job by this topology.
func (p *part) judge(j *slurmctld.Job, nodes []string, rules bool) (out Judgement, uses bool) {
	own, sizes := make([]int, len(p.units)), make([]int, len(p.units))
	out = Judgement{Topology: p.name, Unit: p.unit}
	for _, n := range nodes {
		if unit, known := p.of[n]; known {
			own[unit]++
		} else {
			out.Apart++
		}
	}
	for i, n := range own {
		if n > 0 {
			out.Names, out.Nodes, sizes[i] = append(out.Names, p.units[i].Name), append(out.Nodes, n), len(p.units[i].Nodes)
		}
	}
	if out.Fewest = len(out.Names); out.Fewest == 0 || out.Apart > 0 && !rules {
		return out, false
	}
	if p.unit == UnitLeaf {
		if out.Apart == 0 {
			out.Fewest = fewest(sizes, 1, len(nodes))
		}
		return out, true
	}
	if !rules || j.Segment < 0 || j.Segment > 0 && len(nodes)%j.Segment != 0 {
		return out, true // Slurm places it by other rules, or has placed more nodes
	}
	s := newSearch(p.sizes, len(own), len(nodes), j.Segment)
	out.Segment, out.Segments = s.size, s.segments
	if out.Apart > 0 { // nobody knows where these are
		return out, true
	}
	if out.Split = s.split(own); out.Split == 0 && !j.Spread { // spread segments have their blocks for a reason
		piece := s.size
		if s.perBlock > 1 { // a segment in several blocks
			piece = 1
		}
		out.Fewest = fewest(sizes, piece, len(nodes)/piece)
	}
	return out, true
}

// split is how many segments, at least, are not in one block, or use too many lower-level blocks.
func (s *search) split(own []int) int {
	whole, lower := 0, 0
	for of := range slices.Chunk(own, s.perBlock) {
		whole += sum(of) / s.size
	}
	split := max(0, s.segments-whole)
	if s.limited && s.maxLower < s.size {
		for l := range slices.Chunk(own, 1<<s.level) {
			lower += min(sum(l), 1)
		}
		split = max(split, ceil(max(0, lower-s.segments*s.maxLower), s.size-s.maxLower))
	}
	return min(split, s.segments)
}

// fewest is how many units of these sizes hold so many pieces, each of which is in one unit.
func fewest(sizes []int, piece, pieces int) (units int) {
	fit := make([]int, len(sizes))
	for i, n := range sizes {
		fit[i] = n / piece
	}
	slices.Sort(fit)
	for ; pieces > 0 && units < len(fit); units++ {
		pieces -= fit[len(fit)-1-units]
	}
	return units
}

// Total is how many nodes the job has.
func (j *Judgement) Total() int { return j.Apart + sum(j.Nodes) }

// Words says in words what is not as it could be, such as "3 blocks, 2 would be large enough"
// and "segment 12 got 17+17+2". Without anything to say it is how many units the job uses.
func (j *Judgement) Words() string {
	text := count(len(j.Nodes), j.Unit)
	if j.Fewest < len(j.Nodes) {
		text += fmt.Sprintf(", %d would be large enough", j.Fewest)
	}
	if j.Split > 0 {
		text += fmt.Sprintf("; segment %d got %s", j.Segment, j.Parts())
	}
	return text
}

func count(n int, unit string) string {
	switch {
	case n == 1:
		return "1 " + unit
	case strings.HasSuffix(unit, "h"):
		return fmt.Sprintf("%d %ses", n, unit)
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// maxParts is how many units are named by their nodes.
const maxParts = 12

// Parts are the numbers of nodes in each unit, the largest first, such as 17+17+2.
func (j *Judgement) Parts() string {
	nodes := append(slices.Clone(j.Nodes), slices.Repeat([]int{1}, j.Apart)...)
	slices.SortFunc(nodes, func(a, b int) int { return cmp.Compare(b, a) })
	var words []string
	for _, n := range nodes[:min(len(nodes), maxParts)] {
		words = append(words, strconv.Itoa(n))
	}
	text := strings.Join(words, "+")
	if more := len(nodes) - maxParts; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
