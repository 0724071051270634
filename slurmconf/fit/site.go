package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// Site is a topology with the names of its nodes, and how these are.
type Site struct {
	// Release is the release of Slurm. If it is not known, the latest counts.
	Release slurmconf.Release
	// Sizes are Slurm's BlockSizes. Without any, the topology has no blocks: it is a tree, or flat.
	Sizes []int
	// Blocks are the blocks. In a tree they are the switches without a switch above, each with
	// all nodes below it.
	Blocks []topology.Block
	// Shared says that a switch of the tree is below two others.
	Shared bool
	// Apart are nodes in no block, and below no switch, that a job may have too.
	Apart []string
	// State returns how a node is.
	State func(node string) State
	// leaves are the switches of the tree that have nodes, in the order of the file.
	leaves []leaf
}

// NewSite returns the site of a topology whose nodes are in these states.
func NewSite(t *topology.Topology, release slurmconf.Release, state func(node string) State) *Site {
	s := &Site{Release: release, State: state}
	switch t.Kind {
	case topology.KindBlock:
		s.Blocks, s.Sizes = t.Blocks, sizesOf(t)
	case topology.KindTree:
		s.tops(t.Switches)
	}
	return s
}

// sizesOf returns the BlockSizes of a topology, or those that Slurm makes up.
func sizesOf(t *topology.Topology) []int {
	if len(t.Sizes) > 0 {
		return t.Sizes
	}
	for i := range t.Blocks {
		if n := len(t.Blocks[i].Nodes); n > 0 {
			return []int{n, n << 1, n << 2, n << 3, n << 4}
		}
	}
	return nil
}

// tops finds the switches of a tree without a switch above that have nodes below.
func (s *Site) tops(switches []topology.Switch) {
	paths, parents, tops := topology.PathsAbove(switches), map[string]int{}, map[string]int{}
	for i := range switches {
		for _, child := range switches[i].Children {
			parents[child]++
			s.Shared = s.Shared || parents[child] > 1
		}
		if len(switches[i].Nodes) == 0 {
			continue
		}
		path := paths[switches[i].Name] + "/" + switches[i].Name
		s.leaves = append(s.leaves, leaf{path, switches[i].Nodes})
		name := rootOf(path)
		at, known := tops[name]
		if !known {
			at, tops[name] = len(s.Blocks), len(s.Blocks)
			s.Blocks = append(s.Blocks, topology.Block{Name: name})
		}
		s.Blocks[at].Nodes = append(s.Blocks[at].Nodes, switches[i].Nodes...)
	}
}

// StatesOf returns the states of nodes by Slurm's words for these, such as IDLE+DRAIN. A node without
// words takes no job.
func StatesOf(words func(node string) string) func(node string) State {
	known := map[string]State{"": {Use: Unavailable}} // a site has few words
	return func(node string) State {
		word := words(node)
		state, seen := known[word]
		if !seen {
			state = StateOf(strings.Split(word, "+")...)
			known[word] = state
		}
		return state
	}
}

// HasBlocks reports whether it is a block topology.
func (s *Site) HasBlocks() bool { return len(s.Sizes) > 0 }

// release is the release whose rules count.
func (s *Site) release() slurmconf.Release { return cmp.Or(s.Release, slurmconf.Latest) }

// Nodes are all nodes that a job may have.
func (s *Site) Nodes() []string { return s.Where(func(State) bool { return true }) }

// Where are the nodes whose states have something.
func (s *Site) Where(has func(State) bool) (nodes []string) {
	add := func(some []string) {
		for _, node := range some {
			if has(s.State(node)) {
				nodes = append(nodes, node)
			}
		}
	}
	add(s.Apart)
	for i := range s.Blocks {
		add(s.Blocks[i].Nodes)
	}
	return nodes
}

// The views of a site: what a job can have at once, and what it can have later.
const (
	now      = iota // free nodes, up or powered down
	ended           // and nodes that are busy
	repaired        // and nodes that take no job
	views
)

// anySize are the sizes if one block may have all nodes of a job.
var anySize = []int{math.MaxInt32}

// views counts the nodes that the job can have. The views from unsure on have the nodes of which that
// is not known.
func (s *Site) views(j *Job, unsure int) (all [views]blocks) {
	for v := range all {
		all[v] = blocks{Sizes: s.Sizes, Free: make([]int, len(s.Blocks))}
		if !s.HasBlocks() { // any number of nodes below one switch
			all[v].Sizes, all[v].Alone = anySize, len(s.Blocks) > 0
		}
	}
	for i := range s.Blocks {
		for v, n := range s.count(s.Blocks[i].Nodes, j, unsure) {
			all[v].Free[i] = n
		}
	}
	for v, n := range s.count(s.Apart, j, unsure) {
		all[v].Apart = n
	}
	return all
}

// count is how many of the nodes each view has.
func (s *Site) count(nodes []string, j *Job, unsure int) (count [views]int) {
	for _, node := range nodes {
		state := s.State(node)
		first := state.first()
		if j.unsure(state) {
			first = max(first, unsure)
		}
		if first < views && j.takes(state) {
			count[first]++
		}
	}
	for v := range count[1:] {
		count[v+1] += count[v]
	}
	return count
}

// first is the first view that has a node.
func (s State) first() int {
	switch s.Use {
	case Busy:
		return ended
	case Unavailable:
		return repaired
	}
	return now
}

// Sizes are the sizes of segments that people ask for.
var Sizes = []int{1, 2, 4, 8, 16, 18}

// Row says how many segments of a size fit.
type Row struct {
	Size int `json:"size"`
	// Now is how many fit in what is free, up or powered down. All is how many if all nodes were
	// free and available.
	Now int `json:"now"`
	All int `json:"all"`
	// Taken are the nodes of each block that the segments of Now take.
	Taken []int `json:"-"`
}

// Free counts the segments of each size.
func (s *Site) Free(sizes ...int) (rows []Row) {
	all := s.views(&Job{}, repaired)
	for _, size := range sizes {
		row := Row{Size: size}
		row.Now, row.Taken = all[now].segments(size)
		row.All, _ = all[repaired].segments(size)
		rows = append(rows, row)
	}
	return rows
}

// segments is how many segments of a size fit together, and which nodes of each block they take. If
// Slurm gets stuck, these are the segments before.
func (b *blocks) segments(size int) (count int, taken []int) {
	if size <= b.Sizes[0] { // each is in one block
		taken = make([]int, len(b.Free))
		for i, free := range b.Free {
			count, taken[i] = count+free/size, free/size*size
		}
		return count, taken
	}
	s := b.search(size, size)
	s.segments = sum(b.Free) / size
	place, _ := s.run()
	return len(place.Segments), place.taken(len(b.Free))
}

// ReasonJobSplit is the reason of a finding that names a [SplitSize].
const ReasonJobSplit = "JobSplit"

// SplitSize is the smallest job that fits into one block, and that Slurm would give two although
// all nodes are free. It is 0 if there is none. The job has no segments.
func SplitSize(t *topology.Topology) int {
	s := NewSite(t, 0, func(string) State { return State{} })
	if !s.HasBlocks() {
		return 0
	}
	all := s.views(&Job{}, now)[now]
	for nodes := s.Sizes[0] + 1; nodes <= slices.Max(all.Free); nodes++ {
		place, fits := all.find(&Job{Nodes: nodes})
		if fits == yes && len(place.Segments) > 0 && len(place.Segments[0]) > 1 {
			return nodes
		}
	}
	return 0
}

// never says why a job does not fit if all nodes are free and available.
func (s *Site) never(j *Job, all *blocks) string {
	why := all.never(j)
	if !s.HasBlocks() {
		why = s.neverBelow(all, j.Nodes)
	}
	if j.GPUs > 0 {
		why = fmt.Sprintf("of nodes with %d GPUs or more: %s", j.GPUs, why)
	}
	if absent := s.Where(func(state State) bool { return state.Use == Absent }); len(absent) > 0 {
		why += "; not in Slurm are: " + listed(absent)
	}
	return why
}

// neverBelow says why a job does not fit below a switch.
func (s *Site) neverBelow(all *blocks, nodes int) string {
	if len(s.Blocks) == 0 {
		return fmt.Sprintf("the topology has %s, and the job asks for %d", count(all.Apart, "node"), nodes)
	}
	most := slices.Index(all.Free, slices.Max(all.Free))
	why := fmt.Sprintf("all nodes of a job must be below one switch, and the largest, %s, has %d", s.Blocks[most].Name, all.Free[most])
	if all.Apart > 0 {
		why += fmt.Sprintf("; %d nodes are below no switch and run jobs of one node only", all.Apart)
	}
	return why
}

// never says why a job does not fit into the blocks.
func (b *blocks) never(j *Job) string {
	total := sum(b.Free)
	if j.Nodes > total && (total > 0 || j.Nodes > b.Apart) {
		return fmt.Sprintf("the topology has %s, and the job asks for %d", count(max(total, b.Apart), "node"), j.Nodes)
	}
	what := "a job without --segment"
	if 0 < j.Segment && j.Segment < j.Nodes {
		if count, _ := b.segments(j.Segment); count < j.Nodes/j.Segment {
			return fmt.Sprintf("%d segments of %d nodes fit if all nodes are free and available, and the job asks for %d", count, j.Segment, j.Nodes/j.Segment)
		}
		what = "a segment"
	}
	s := newSearch(b.Sizes, len(b.Free), j.Nodes, j.Segment)
	if level, _ := levels(b.Sizes, s.size); level >= 0 {
		most := 0
		for of := range slices.Chunk(b.Free, s.perBlock) {
			most = max(most, sum(of))
		}
		return fmt.Sprintf("%s of %d nodes must be in one block of BlockSize %d, and the largest has %d nodes", what, s.size, b.Sizes[0]<<level, most)
	}
	return fmt.Sprintf("%s of %d nodes may use at most %d blocks of BlockSize %d, and the largest have %d nodes together", what, s.size, s.maxLower, b.Sizes[0]<<s.level, s.usable(b.Free))
}
