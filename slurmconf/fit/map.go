package fit

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// The kinds of units.
const (
	UnitBlock = "block"
	UnitLeaf  = "leaf switch"
)

// Judgement is how a job lies in one topology.
type Judgement struct {
	Topology string
	// Unit is UnitBlock or UnitLeaf. Names are the units that have nodes of the job.
	Unit  string
	Names []string
	Layout
}

// Words says it in words, such as "3 blocks, 2 would have done".
func (j *Judgement) Words() string { return j.words(j.Unit) }

// Map is the topologies of a Slurm cluster. It says where running jobs are in them, and whether
// Slurm obeys them. A node counts as free at a job's start only if Slurm's word proves it. So the
// fewest units may be fewer than the Map says, and are never more.
type Map struct{ parts []*part }

// part is one topology.
type part struct {
	name  string
	first bool // that of partitions that name none
	unit  string
	sizes []int // of blocks
	names []string
	nodes [][]string     // of each unit
	of    map[string]int // the unit of each node
	roots []int          // of each leaf
}

// NewMap reads the topologies. It refuses block topologies without sizes.
func NewMap(topologies []topology.Topology) (*Map, error) {
	m := &Map{}
	for i := range topologies {
		t := &topologies[i]
		p := &part{name: t.Name, first: t.Default || len(topologies) == 1, of: map[string]int{}, unit: UnitBlock}
		switch t.Kind {
		case topology.KindBlock:
			if p.sizes = t.Sizes; len(p.sizes) == 0 {
				return nil, fmt.Errorf("topology %s has no BlockSizes", t.Name)
			}
		case topology.KindTree:
			p.unit = UnitLeaf
		default:
			continue
		}
		for _, u := range topology.UnitsOf(topologies[i : i+1]) {
			for _, n := range u.Nodes {
				p.of[n] = len(p.names)
			}
			p.names, p.nodes = append(p.names, u.Name), append(p.nodes, u.Nodes)
		}
		p.findRoots(t.Switches)
		m.parts = append(m.parts, p)
	}
	return m, nil
}

// findRoots finds the root above each leaf.
func (p *part) findRoots(switches []topology.Switch) {
	if p.unit != UnitLeaf {
		return
	}
	parents := topology.ParentsOf(switches)
	roots := map[string]int{}
	for _, name := range p.names {
		for range switches { // a file may have a ring
			parent, has := parents[name]
			if !has {
				break
			}
			name = parent
		}
		if _, known := roots[name]; !known {
			roots[name] = len(roots)
		}
		p.roots = append(p.roots, roots[name])
	}
}

// Judge judges jobs of what Slurm said at one moment. If it is not known whether a job has
// segments, its Segment is less than 0. wanted says which jobs; nil is all. It
// returns what it says of each job by the job's index. A job that is in no unit is not there.
func (m *Map) Judge(state *slurmctld.State, wanted func(*slurmctld.Job) bool) map[int][]Judgement {
	all := map[int][]Judgement{}
	var now *moment
	for i := range state.Jobs {
		j := &state.Jobs[i]
		if wanted != nil && !wanted(j) {
			continue
		}
		nodes, err := hostlist.Expand(j.Nodes)
		if err != nil || len(nodes) == 0 {
			continue // Slurm's own list
		}
		if now == nil {
			now = newMoment(state)
		}
		for _, p := range m.parts {
			if judged, is := p.judge(now, j, nodes); is {
				all[i] = append(all[i], judged)
			}
		}
	}
	return all
}

// rules says whether Slurm places the job by this topology. A partition that is not known
// counts as one that names none.
func (p *part) rules(now *moment, j *slurmctld.Job) bool {
	name := now.state.Partitions[j.Partition]
	return name == p.name || name == "" && p.first
}

func (p *part) judge(now *moment, j *slurmctld.Job, nodes []string) (Judgement, bool) {
	own, apart := make([]int, len(p.names)), 0
	for _, n := range nodes {
		if unit, is := p.of[n]; is {
			own[unit]++
		} else {
			apart++
		}
	}
	rules := p.rules(now, j)
	if apart == len(nodes) || apart > 0 && !rules {
		return Judgement{}, false
	}
	out := Judgement{Topology: p.name, Unit: p.unit}
	for i, n := range own {
		if n > 0 {
			out.Names = append(out.Names, p.names[i])
		}
	}
	free := slices.Clone(own)
	if len(out.Names) > 1 && !j.Choosy && j.Segment >= 0 {
		free = now.free(p, j, own)
	}
	if p.unit == UnitLeaf {
		tree := leaves{Free: free, Roots: p.roots}
		out.Layout = tree.judge(own, apart)
		return out, true
	}
	b := blocks{Sizes: p.sizes, Free: free}
	segment := max(j.Segment, 0)
	if segment > 0 && len(nodes)%segment != 0 {
		segment = 0 // the job has lost nodes
	}
	out.Layout = b.judge(&Job{Nodes: len(nodes), Segment: segment, Spread: j.Spread, Consolidate: j.Consolidate}, own, apart)
	if !rules || segment != j.Segment { // Slurm places it by other rules, or has placed more nodes
		out.Segment, out.Segments, out.Split, out.Fewest = 0, 0, 0, len(out.Names)
	}
	return out, true
}
