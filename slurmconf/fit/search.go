package fit

import (
	"math/bits"
	"slices"
)

// search is one try to find a place. A block here is what a segment must fit in: an
// aggregate of base blocks. A lower-level block is an aggregate of the size below.
type search struct {
	job      *Job
	free     []int // by base block
	off      []int // how many of the free nodes are powered down, or nil
	segments int   // how many
	size     int   // nodes of a segment
	perBlock int   // base blocks in a block
	level    int   // of lower-level blocks: 2^level base blocks each
	maxLower int   // lower-level blocks that a segment may use
	limited  bool  // the number of lower-level blocks limits a segment
	perPart  int   // blocks in the aggregate that all segments must fit in, or 0
	part     int   // that aggregate, or -1
	tooMany  bool  // the nodes that are up are in too many lower-level blocks
	late     bool  // no block is left for a segment after the first
}

func (b *blocks) search(j *Job, free, off []int) *search {
	s := &search{job: j, free: slices.Clone(free), off: slices.Clone(off), segments: 1, size: j.Nodes, part: -1}
	if 0 < j.Segment && j.Segment <= j.Nodes {
		s.segments, s.size = j.Nodes/j.Segment, j.Segment
	}
	level, lower := b.levels(s.size)
	s.perBlock, s.level = len(free), lower
	if level >= 0 {
		s.perBlock = 1 << level
	}
	lowerSize := b.Sizes[0] << lower
	s.maxLower = up(s.size, lowerSize)
	s.limited = s.perBlock != s.maxLower<<lower
	if j.Consolidate && j.Segment > 0 && j.Segment <= j.Nodes {
		whole := j.Nodes
		if j.Spread {
			whole = up(j.Segment, b.Sizes[0]) * b.Sizes[0] * s.segments
		}
		s.perPart = len(free)
		if part, _ := b.levels(whole); part >= 0 {
			s.perPart = 1 << (part - level)
		}
	}
	return s
}

// levels returns the level of the smallest size that holds n nodes, and of the largest
// size below it. A level k has 2^k base blocks. -1 is the whole topology.
func (b *blocks) levels(n int) (level, lower int) {
	need := bits.Len(uint(up(n, b.Sizes[0]) - 1))
	level = -1
	for _, size := range slices.Backward(b.Sizes) {
		if k := bits.Len(uint(size/b.Sizes[0])) - 1; k >= need {
			level = k
		} else if lower == 0 {
			lower = k
		}
	}
	return level, lower
}

func up(n, by int) int { return (n + by - 1) / by }

// up is how many free nodes of a base block are not powered down.
func (s *search) up(i int) int {
	if s.off == nil {
		return s.free[i]
	}
	return s.free[i] - s.off[i]
}

// run finds the segments one after the other. If a segment does not fit in its block after all,
// run returns what was taken until then.
func (s *search) run() (Place, bool) {
	if s.job.Spread && s.segments > 1 && s.spreadable() < s.segments {
		return Place{}, false
	}
	var p Place
	for k := range s.segments {
		block, ok := s.block(k == 0)
		if !ok {
			s.late = k > 0
			return Place{}, false
		}
		if k == 0 && s.perPart > 0 {
			s.keep(block / s.perPart)
		}
		segment, ok := s.segment(block)
		if !ok {
			p.Segments = append(p.Segments, segment)
			return p, false
		}
		for _, t := range segment {
			s.leave(t)
		}
		p.Segments = append(p.Segments, segment)
	}
	return p, true
}

// leave leaves what a segment has not taken of a base block.
func (s *search) leave(t Taken) {
	if s.job.Spread {
		t.Nodes = s.free[t.Block]
	}
	if s.off != nil { // nodes that are up are taken first
		s.off[t.Block] -= max(0, t.Nodes-s.up(t.Block))
	}
	s.free[t.Block] -= t.Nodes
}

// spreadable is at most how many segments fit if no base block has two.
func (s *search) spreadable() (segments int) {
	for of := range slices.Chunk(s.free, s.perBlock) {
		nodes, blocks, most := 0, 0, 0
		for _, n := range of {
			switch {
			case n >= s.size:
				segments++
			case n > 0:
				nodes, blocks, most = nodes+n, blocks+1, max(most, n)
			}
		}
		if nodes > 0 {
			segments += min(nodes/s.size, blocks/up(s.size, most))
		}
	}
	return segments
}

// keep leaves nothing free outside the aggregate that all segments must fit in.
func (s *search) keep(part int) {
	s.part = part
	for i := range s.free {
		if i/s.perBlock/s.perPart != part {
			s.leave(Taken{i, s.free[i]})
		}
	}
}

// block returns the block for the next segment: the one with the fewest free nodes that are
// enough, and of equal ones the last. A block in which all free nodes are powered down comes last.
func (s *search) block(first bool) (best int, ok bool) {
	best, least, segments, dark := -1, 0, 0, false
	count := up(len(s.free), s.perBlock)
	for i := range count {
		of := s.free[i*s.perBlock : min((i+1)*s.perBlock, len(s.free))]
		nodes := sum(of)
		if nodes < s.size || s.limited && s.usable(of) < s.size || first && s.perPart > 0 && sum(s.ofPart(i/s.perPart)) < s.job.Nodes {
			continue
		}
		if first {
			in := nodes / s.size
			if s.job.Spread {
				in = min(in, s.perBlock)
			}
			segments += in
		}
		none := s.off != nil && s.allOff(i)
		if best < 0 || dark && !none || dark == none && nodes <= least {
			best, least, dark = i, nodes, none
		}
	}
	if first && s.segments > 1 && segments < s.segments {
		return -1, false
	}
	return best, best >= 0
}

// allOff reports whether all free nodes of a block are powered down.
func (s *search) allOff(block int) bool {
	for i := block * s.perBlock; i < min((block+1)*s.perBlock, len(s.free)); i++ {
		if s.up(i) > 0 {
			return false
		}
	}
	return true
}

// ofPart returns what is free in the base blocks of a part.
func (s *search) ofPart(part int) []int {
	per := s.perBlock * s.perPart
	return s.free[part*per : min((part+1)*per, len(s.free))]
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

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// segment takes the nodes of one segment from base blocks of a block, as far as they do.
func (s *search) segment(block int) (Segment, bool) {
	c := &choice{search: s, first: block * s.perBlock, rest: s.size, can: s.free, taken: make([]bool, s.perBlock)}
	c.last = min(c.first+s.perBlock, len(s.free))
	left, out := s.maxLower, Segment(nil)
	if s.off != nil {
		var used int
		if out, used = c.light(); used > left {
			s.tooMany = true
			return out, false
		}
		left -= used
	}
	for c.rest > 0 {
		at, joins := c.best()
		if at < 0 || c.can[at] == 0 || left <= 0 && !joins {
			return out, false
		}
		n := min(c.can[at], c.rest)
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
	first, last int   // base blocks
	rest        int   // nodes to take
	can         []int // nodes that may be taken, by base block
	taken       []bool
}

// light chooses between nodes that are up and nodes that are powered down. If those that are up
// are enough, the segment gets none of the others. If they are too few, the segment gets all of
// them, and more nodes of their blocks. light returns what it has taken, and in how many
// lower-level blocks.
func (c *choice) light() (out Segment, lower int) {
	enough, last := 0, -1
	for i := c.first; i < c.last; i++ {
		enough += c.up(i)
	}
	c.can = slices.Clone(c.free)
	for i := c.first; i < c.last; i++ {
		switch n := c.up(i); {
		case enough >= c.size:
			c.can[i] = n
		case n > 0:
			out = append(out, Taken{i, n})
			c.taken[i-c.first], c.can[i] = true, 0
			if i>>c.level != last {
				lower, last = lower+1, i>>c.level
			}
		}
	}
	c.rest -= sum(nodesOf(out))
	for k := range out {
		n := min(c.off[out[k].Block], c.rest)
		out[k].Nodes += n
		c.rest -= n
	}
	return out, lower
}

func nodesOf(segment Segment) (nodes []int) {
	for _, t := range segment {
		nodes = append(nodes, t.Nodes)
	}
	return nodes
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
		next := candidate{at: i, joins: true, nodes: c.can[i]}
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
		free += c.can[j]
	}
	return used, free
}

// better compares: fewest lower-level blocks, then fewest base blocks, then the least left over.
func (c *choice) better(next, best *candidate) bool {
	if c.limited && next.at>>c.level != best.at>>c.level {
		if next.joins != best.joins {
			return next.joins
		}
		if is, decided := c.closer(next.lower, best.lower); decided {
			return is
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
func (c *choice) closer(next, best int) (is, decided bool) {
	fits, fit := next >= c.rest, best >= c.rest
	switch {
	case fits != fit:
		return fits, true
	case next == best:
		return false, false
	}
	return fits == (next < best), true
}
