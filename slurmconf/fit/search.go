package fit

import (
	"math/bits"
	"slices"
)

// blocks are the blocks of a topology, and the nodes that a job may have.
type blocks struct {
	// Sizes are Slurm's BlockSizes, the base first.
	Sizes []int
	// Free are the nodes of each block that a job may have, in the order of the file. A
	// placeholder has 0.
	Free []int
	// Apart are nodes that are in no block of the topology. Alone says that they run jobs of one
	// node only.
	Apart int
	Alone bool
}

// Place is what a job would get.
type Place struct {
	// Segments say what each segment takes. A job without segments is one segment.
	Segments []Segment
	// Apart are the nodes in no block. Slurm uses these if it has no choice.
	Apart int
}

// Segment is what one segment takes.
type Segment []Taken

// Taken is a number of nodes of a block.
type Taken struct{ Block, Nodes int }

// taken are the nodes that the place takes of each of so many blocks.
func (p *Place) taken(blocks int) []int {
	all := make([]int, blocks)
	for _, segment := range p.Segments {
		for _, t := range segment {
			all[t.Block] += t.Nodes
		}
	}
	return all
}

// outcome says whether a job fits.
type outcome int

const (
	no    outcome = iota
	stuck         // Slurm's first place does not do, and by which rule Slurm tries others is not known
	yes
)

// find returns what Slurm would give the job of what is free. The words of the job have been
// checked.
func (b *blocks) find(j *Job) (Place, outcome) {
	total := sum(b.Free)
	if j.Nodes > total { // Slurm uses the topology only if a node of a block is free
		if j.Nodes <= b.Apart && (total == 0 && !b.Alone || j.Nodes == 1) {
			return Place{Apart: j.Nodes}, yes
		}
		return Place{Apart: j.Nodes}, no
	}
	return b.search(j.Nodes, j.Segment).run()
}

// search returns the search for a job's place.
func (b *blocks) search(nodes, segment int) *search {
	s := newSearch(b.Sizes, len(b.Free), nodes, segment)
	s.free = slices.Clone(b.Free)
	return s
}

// run places the segments one after the other, as far as they fit.
func (s *search) run() (p Place, fits outcome) {
	for range s.segments {
		block, ok := s.block()
		if !ok {
			return p, no
		}
		segment, ok := s.segment(block)
		if !ok {
			return p, stuck
		}
		for _, t := range segment {
			s.free[t.Block] -= t.Nodes
		}
		p.Segments = append(p.Segments, segment)
	}
	return p, yes
}

// search is one try to find a place. A block here is what a segment must fit in: an
// aggregate of base blocks. A lower-level block is an aggregate of the size below.
type search struct {
	free     []int // by base block
	segments int   // how many
	size     int   // nodes of a segment
	perBlock int   // base blocks in a block
	level    int   // of lower-level blocks: 2^level base blocks each
	maxLower int   // lower-level blocks that a segment may use
	limited  bool  // the number of lower-level blocks limits a segment
}

// newSearch returns what a job must keep to in so many base blocks.
func newSearch(sizes []int, blocks, nodes, segment int) *search {
	s := &search{segments: 1, size: nodes}
	if 0 < segment && segment <= nodes {
		s.segments, s.size = nodes/segment, segment
	}
	level, lower := levels(sizes, s.size)
	s.perBlock, s.level = blocks, lower
	if level >= 0 {
		s.perBlock = 1 << level
	}
	s.maxLower = ceil(s.size, sizes[0]<<lower)
	s.limited = s.perBlock != s.maxLower<<lower
	return s
}

// levels returns the level of the smallest size that holds n nodes, and of the largest
// size below it. A level k has 2^k base blocks. -1 is the whole topology.
func levels(sizes []int, n int) (level, lower int) {
	need := bits.Len(uint(ceil(n, sizes[0]) - 1))
	level = -1
	for _, size := range slices.Backward(sizes) {
		if k := bits.Len(uint(size/sizes[0])) - 1; k >= need {
			level = k
		} else if lower == 0 {
			lower = k
		}
	}
	return level, lower
}

// ceil is how many parts of a size hold n.
func ceil(n, size int) int { return (n + size - 1) / size }

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// block returns the block for the next segment: the one with the fewest free nodes that are
// enough, and of equal ones the last.
func (s *search) block() (best int, ok bool) {
	best, least := -1, 0
	for i := range ceil(len(s.free), s.perBlock) {
		of := s.free[i*s.perBlock : min((i+1)*s.perBlock, len(s.free))]
		nodes := sum(of)
		if nodes < s.size || s.limited && s.usable(of) < s.size {
			continue
		}
		if best < 0 || nodes <= least {
			best, least = i, nodes
		}
	}
	return best, best >= 0
}

// usable is how many of the free nodes of a block one segment may use if the number of
// lower-level blocks is limited. If the block is the whole topology, only whole ones count.
func (s *search) usable(of []int) int {
	var lower []int
	for l := range slices.Chunk(of[:min(len(of), s.perBlock>>s.level<<s.level)], 1<<s.level) {
		lower = append(lower, sum(l))
	}
	slices.Sort(lower)
	return sum(lower[max(0, len(lower)-s.maxLower):])
}

// segment takes the nodes of one segment from base blocks of a block, as far as they do.
func (s *search) segment(block int) (out Segment, whole bool) {
	c := &choice{search: s, first: block * s.perBlock, rest: s.size, taken: make([]bool, s.perBlock)}
	c.last = min(c.first+s.perBlock, len(s.free))
	for left := s.maxLower; c.rest > 0; {
		at, joins := c.best()
		if at < 0 || s.free[at] == 0 || left <= 0 && !joins {
			return out, false
		}
		n := min(s.free[at], c.rest)
		out = append(out, Taken{at, n})
		c.taken[at-c.first] = true
		c.rest -= n
		if !joins {
			left--
		}
	}
	return out, true
}

// choice is what a segment has taken so far of a block.
type choice struct {
	*search
	first, last int // base blocks
	rest        int // nodes to take
	taken       []bool
}

// candidate is a base block that a segment may take next.
type candidate struct {
	at    int
	joins bool // its lower-level block is used already, or nobody counts these
	lower int  // free nodes of its lower-level block
	nodes int
}

// best returns the base block that is taken next, or -1.
func (c *choice) best() (at int, joins bool) {
	best := candidate{at: -1}
	for i := c.first; i < c.last; i++ {
		if c.taken[i-c.first] {
			continue
		}
		next := candidate{at: i, joins: true, nodes: c.free[i]}
		if c.limited {
			next.joins, next.lower = c.lowerOf(i)
		}
		if best.at < 0 || c.better(&next, &best) {
			best = next
		}
	}
	return best.at, best.joins
}

// lowerOf says whether the lower-level block of a base block is used already, and what is free in it.
func (c *choice) lowerOf(i int) (used bool, free int) {
	start := i >> c.level << c.level
	for j := start; j < min(start+1<<c.level, c.last); j++ {
		used = used || c.taken[j-c.first]
		free += c.free[j]
	}
	return used, free
}

// better compares: fewest lower-level blocks, then fewest base blocks, then the least left over.
func (c *choice) better(next, best *candidate) bool {
	if c.limited && next.at>>c.level != best.at>>c.level {
		if next.joins != best.joins {
			return next.joins
		}
		if closer, decided := c.closer(next.lower, best.lower); decided {
			return closer
		}
	}
	fits, fit := next.nodes >= c.rest, best.nodes >= c.rest
	switch {
	case fits != fit:
		return fits
	case fits:
		return next.nodes <= best.nodes
	}
	return next.nodes >= best.nodes
}

// closer prefers what is enough, then the smaller if both are enough, and else the larger.
func (c *choice) closer(next, best int) (closer, decided bool) {
	fits, fit := next >= c.rest, best >= c.rest
	switch {
	case fits != fit:
		return fits, true
	case next == best:
		return false, false
	}
	return fits == (next < best), true
}
