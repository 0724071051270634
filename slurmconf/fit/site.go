package fit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// Site is a block topology with the names of its nodes, and how these are.
type Site struct {
	Sizes  []int
	Blocks []topology.Block
	// Apart are nodes in no block that a job may have too.
	Apart []string
	// State returns how a node is.
	State func(node string) State
}

// Request is what a user asks for.
type Request struct {
	Job
	// Exclusive is --exclusive=topo: no other job may be in the job's blocks.
	Exclusive bool
	// GPUs is --gpus-per-node: nodes with fewer GPUs are left out.
	GPUs int
}

// Verdict says whether a job can start.
type Verdict string

// The verdicts.
const (
	Now    Verdict = "now"
	NotNow Verdict = "not now"
	Never  Verdict = "never"
)

// Answer says whether a job can start, and where or why not.
type Answer struct {
	Verdict Verdict
	// Why says why the job can never start.
	Why string
	// Place is what the job would get: now, or when the needed nodes are free and available.
	Place Place
	// Needs are nodes that would do if they were free and available. There may be others.
	Needs []Need
}

// Need says how many nodes of a block are missing.
type Need struct {
	Block string
	Count int
	// Nodes are the nodes that are not free, the busy ones first. Any Count of these will do.
	Nodes []string
}

// view is what a request sees of a site: how many nodes of each block are free, how many would
// be if all jobs ended, and if all nodes were available too.
type view struct{ free, available, all blocks }

func (s *Site) view(r *Request) view {
	var v view
	for _, of := range []*blocks{&v.free, &v.available, &v.all} {
		of.Sizes, of.Free = s.Sizes, make([]int, len(s.Blocks))
	}
	for i := range s.Blocks {
		taken := false
		for _, node := range s.Blocks[i].Nodes {
			state := s.State(node)
			if !r.takes(state) {
				continue
			}
			taken = taken || state.Use == Busy
			v.add(state.Use, func(of *blocks) *int { return &of.Free[i] })
		}
		if taken && r.Exclusive {
			v.free.Free[i] = 0
		}
	}
	for _, node := range s.Apart {
		if state := s.State(node); r.takes(state) {
			v.add(state.Use, func(of *blocks) *int { return &of.Apart })
		}
	}
	return v
}

// takes reports whether the node has what the request asks of each.
func (r *Request) takes(state State) bool { return state.GPUs == 0 || state.GPUs >= r.GPUs }

func (v *view) add(use Use, count func(*blocks) *int) {
	*count(&v.all)++
	if use != Unavailable {
		*count(&v.available)++
	}
	if use == Free {
		*count(&v.free)++
	}
}

// Answer says whether the job can start. The words of the request have been checked.
func (s *Site) Answer(r *Request) Answer {
	v := s.view(r)
	if place, ok := v.free.find(&r.Job); ok {
		return Answer{Verdict: Now, Place: place}
	}
	if place, ok := v.available.find(&r.Job); ok {
		return s.wait(r, &v.free, &v.available, place)
	}
	if place, ok := v.all.find(&r.Job); ok {
		return s.wait(r, &v.free, &v.all, place)
	}
	why := v.all.never(&r.Job)
	if r.GPUs > 0 {
		why = fmt.Sprintf("of nodes with %d GPUs or more: %s", r.GPUs, why)
	}
	return Answer{Verdict: Never, Why: why}
}

// wait finds few nodes whose return would let the job start. With all of them it gets place.
func (s *Site) wait(r *Request, now, full *blocks, place Place) Answer {
	order := make([]int, len(now.Free))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(r.lacks(now, full, a), r.lacks(now, full, b))
	})
	try, does := *full, *full
	try.Free = slices.Clone(full.Free)
	// The fewest blocks of the order that do when all their nodes are back.
	from, to := 0, len(order)
	for from < to {
		mid := (from + to) / 2
		for k, i := range order {
			try.Free[i] = now.Free[i]
			if k < mid {
				try.Free[i] = full.Free[i]
			}
		}
		if p, ok := try.find(&r.Job); ok {
			to, place, does.Free = mid, p, slices.Clone(try.Free)
		} else {
			from = mid + 1
		}
	}
	need := needed(now, full, place)
	if p, ok := need.find(&r.Job); ok {
		place = p
	} else { // with fewer free nodes Slurm may begin in a block where it gets stuck
		need = &does
	}
	a := Answer{Verdict: NotNow, Place: place}
	for i, count := range need.Free {
		if count > now.Free[i] {
			a.Needs = append(a.Needs, s.needs(r, i, count)...)
		}
	}
	if place.Apart > now.Apart {
		a.Needs = append(a.Needs, Need{Count: place.Apart - now.Apart, Nodes: s.notFree(r, s.Apart)})
	}
	return a
}

// lacks is how many nodes of a block must come back until one more segment fits there.
func (r *Request) lacks(now, full *blocks, block int) int {
	size := cmp.Or(r.Segment, r.Nodes)
	size = min(size, full.Sizes[0])
	lacks := size - now.Free[block]%size
	if now.Free[block]+lacks > full.Free[block] {
		lacks += full.Sizes[0] // none more fits: last
	}
	return lacks
}

// needed is what is free if only the nodes that the place takes come back.
func needed(now, full *blocks, place Place) *blocks {
	need := *now
	need.Free = slices.Clone(now.Free)
	taken := make([]int, len(now.Free))
	for _, segment := range place.Segments {
		for _, t := range segment {
			taken[t.Block] += t.Nodes
			need.Free[t.Block] = min(max(now.Free[t.Block], taken[t.Block]), full.Free[t.Block])
		}
	}
	need.Apart = max(now.Apart, place.Apart)
	return &need
}

// needs names the nodes of a block that are not free, if so many are to be. For an exclusive job
// all jobs of the block must end.
func (s *Site) needs(r *Request, block, count int) (out []Need) {
	b := &s.Blocks[block]
	nodes := s.notFree(r, b.Nodes)
	for _, node := range b.Nodes {
		if state := s.State(node); state.Use == Free && r.takes(state) {
			count--
		}
	}
	if busy := slices.IndexFunc(append(nodes, ""), func(node string) bool { return node == "" || s.State(node).Use != Busy }); r.Exclusive && busy > 0 {
		out = append(out, Need{b.Name, busy, nodes[:busy]})
		nodes, count = nodes[busy:], count-busy
	}
	if count > 0 {
		out = append(out, Need{b.Name, count, nodes})
	}
	return out
}

func (s *Site) notFree(r *Request, nodes []string) []string {
	var out []string
	for _, node := range nodes {
		if state := s.State(node); state.Use != Free && r.takes(state) {
			out = append(out, node)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(s.State(a).Use, s.State(b).Use) })
	return out
}

// Sizes are the sizes of segments that people ask for.
var Sizes = []int{1, 2, 4, 8, 16, 18}

// Row says how many segments of a size fit.
type Row struct {
	Size int `json:"size"`
	// Now is how many fit in what is free, and All how many if all nodes were free and available.
	Now int `json:"now"`
	All int `json:"all"`
}

// Segments counts the segments of each size.
func (s *Site) Segments(r *Request, sizes ...int) []Row {
	v := s.view(r)
	var rows []Row
	for _, size := range sizes {
		rows = append(rows, Row{size, v.free.segments(size), v.all.segments(size)})
	}
	return rows
}

// segments is how many segments of a size fit together.
func (b *blocks) segments(size int) (count int) {
	if size <= b.Sizes[0] {
		for _, free := range b.Free {
			count += free / size
		}
		return count
	}
	for from, to := 0, sum(b.Free)/size; from < to; {
		mid := (from + to + 1) / 2
		if _, ok := b.find(&Job{Nodes: mid * size, Segment: size}); ok {
			from, count = mid, mid
		} else {
			to = mid - 1
		}
	}
	return count
}

// never says why a job does not fit if all nodes are free and available.
func (b *blocks) never(j *Job) string {
	total := sum(b.Free)
	if j.Nodes > total && (total > 0 || j.Nodes > b.Apart) {
		return fmt.Sprintf("the topology has %d nodes, and the job asks for %d", max(total, b.Apart), j.Nodes)
	}
	size, what := j.Nodes, "a job without --segment"
	if 0 < j.Segment && j.Segment < j.Nodes {
		count := b.segments(j.Segment)
		if count < j.Nodes/j.Segment {
			return fmt.Sprintf("%d segments of %d nodes fit if all nodes are free and available, and the job asks for %d", count, j.Segment, j.Nodes/j.Segment)
		}
		switch {
		case j.Consolidate:
			return fmt.Sprintf("%d segments of %d nodes fit, but not together in one aggregate of blocks, as --consolidate-segments asks", count, j.Segment)
		case j.Spread:
			return fmt.Sprintf("%d segments of %d nodes fit, but not each in base blocks of its own, as --spread-segments asks", count, j.Segment)
		}
		size, what = j.Segment, "a segment"
	}
	s := b.search(j, b.Free)
	if level, _ := b.levels(size); level >= 0 {
		most := 0
		for of := range slices.Chunk(b.Free, s.perBlock) {
			most = max(most, sum(of))
		}
		return fmt.Sprintf("%s of %d nodes must be in one block of BlockSize %d, and the largest has %d nodes", what, size, b.Sizes[0]<<level, most)
	}
	return fmt.Sprintf("%s of %d nodes may use at most %d blocks of BlockSize %d, and the largest have %d nodes together", what, size, s.maxLower, b.Sizes[0]<<s.level, s.usable(b.Free))
}
