package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Layout is where a running job is, and whether that is as it asked.
type Layout struct {
	// Nodes are the job's nodes in each unit that has some, in the order of the file. A unit is a
	// block, or a leaf switch. Apart is how many nodes are in no unit.
	Nodes []Taken
	Apart int
	// Fewest is the smallest number of units that would have done. It is len(Nodes) if no smaller
	// number is known.
	Fewest int
	// Segment is the size of the job's segments, and Segments is how many the job has. At least
	// Split of them are not in one place as a segment must be. A job without --segment is one
	// segment. All are 0 for switches.
	Segment, Segments, Split int
}

// judge says how a running job lies in the blocks. own has its nodes in each block, and apart
// those in none. Free counts the nodes of each block that the job could have had at its start:
// the job's own nodes, and nodes that were free for certain.
func (b *blocks) judge(j *Job, own []int, apart int) Layout {
	l := Layout{Nodes: taken(own), Apart: apart, Fewest: units(own)}
	s := b.search(j, b.Free, nil)
	l.Segment, l.Segments = s.size, s.segments
	if len(l.Nodes) == 0 {
		l.Segment, l.Segments = 0, 0
		return l
	}
	if apart > 0 { // nobody knows where these are
		return l
	}
	l.Split = s.split(own)
	if l.Split > 0 || j.Spread || j.Consolidate || l.Fewest == 1 {
		return l // segments that are spread or consolidated have their blocks for a reason
	}
	if n, ok := s.fewest(); ok {
		l.Fewest = min(l.Fewest, n)
	}
	return l
}

func taken(own []int) (all []Taken) {
	for i, n := range own {
		if n > 0 {
			all = append(all, Taken{i, n})
		}
	}
	return all
}

func units(own []int) (count int) {
	for _, n := range own {
		if n > 0 {
			count++
		}
	}
	return count
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
		split = max(split, up(max(0, lower-s.segments*s.maxLower), s.size-s.maxLower))
	}
	return min(split, s.segments)
}

// fewest is the number of base blocks of a place with few of them. If a segment fits in a base
// block, no place has fewer.
func (s *search) fewest() (int, bool) {
	if s.perBlock == 1 {
		return fewest(s.free, s.size, s.segments)
	}
	used := make([]bool, len(s.free))
	for range s.segments {
		best, more := []Taken(nil), 0
		for block := range up(len(s.free), s.perBlock) {
			place, fits := s.tight(block, used)
			if news := fresh(place, used); fits && (best == nil || news < more) {
				best, more = place, news
			}
		}
		if best == nil {
			return 0, false
		}
		for _, t := range best {
			s.free[t.Block] -= t.Nodes
			used[t.Block] = true
		}
	}
	count := 0
	for _, is := range used {
		if is {
			count++
		}
	}
	return count, true
}

// fewest is how many units must be used until so many pieces of a size are together.
func fewest(free []int, size, pieces int) (int, bool) {
	fit := make([]int, len(free))
	for i, n := range free {
		fit[i] = n / size
	}
	slices.Sort(fit)
	for used := range len(fit) {
		if pieces <= 0 {
			return used, true
		}
		pieces -= fit[len(fit)-1-used]
	}
	return len(fit), pieces <= 0
}

// tight finds a place for a segment in few base blocks of a block. It takes the ones that are
// used already, then the largest. If these are in too many lower-level blocks, it takes those
// lower-level blocks that have the most free nodes.
func (s *search) tight(block int, used []bool) ([]Taken, bool) {
	first, last := block*s.perBlock, min((block+1)*s.perBlock, len(s.free))
	if s.limited && block == 0 && last == len(s.free) { // only whole lower-level blocks count
		last = last >> s.level << s.level
	}
	order := make([]int, 0, last-first)
	for i := first; i < last; i++ {
		if s.free[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.news(a, used), s.news(b, used)), cmp.Compare(s.free[b], s.free[a]))
	})
	place, fits := s.take(order)
	if !fits || !s.limited {
		return place, fits
	}
	if lower := s.lowerBlocks(place); lower <= s.maxLower {
		return place, true
	}
	return s.take(s.largest(order))
}

func (s *search) news(block int, used []bool) int {
	if used[block] {
		return 0
	}
	return 1
}

// take takes a segment's nodes from blocks in their order.
func (s *search) take(order []int) (place []Taken, fits bool) {
	rest := s.size
	for _, i := range order {
		if rest == 0 {
			break
		}
		n := min(s.free[i], rest)
		place, rest = append(place, Taken{i, n}), rest-n
	}
	return place, rest == 0
}

func (s *search) lowerBlocks(place []Taken) int {
	in := map[int]bool{}
	for _, t := range place {
		in[t.Block>>s.level] = true
	}
	return len(in)
}

// largest leaves of an order what is in the lower-level blocks with the most free nodes, as many
// as a segment may use.
func (s *search) largest(order []int) []int {
	nodes := map[int]int{}
	var lower []int
	for _, i := range order {
		l := i >> s.level
		if nodes[l] == 0 {
			lower = append(lower, l)
		}
		nodes[l] += s.free[i]
	}
	slices.SortStableFunc(lower, func(a, b int) int { return cmp.Compare(nodes[b], nodes[a]) })
	lower = lower[:min(s.maxLower, len(lower))]
	return slices.DeleteFunc(slices.Clone(order), func(i int) bool { return !slices.Contains(lower, i>>s.level) })
}

// fresh counts the base blocks of a place that are not used yet.
func fresh(place []Taken, used []bool) (count int) {
	for _, t := range place {
		if !used[t.Block] {
			count++
		}
	}
	return count
}

// leaves are the leaf switches of a tree.
type leaves struct {
	// Free are the nodes of each leaf that a job could have had.
	Free []int
	// Roots say above which root each leaf is. A job is below one root.
	Roots []int
}

// judge says how a running job lies on the leaf switches.
func (t *leaves) judge(own []int, apart int) Layout {
	l := Layout{Nodes: taken(own), Apart: apart, Fewest: units(own)}
	if apart > 0 || l.Fewest < 2 {
		return l
	}
	roots := map[int][]int{}
	for i, root := range t.Roots {
		roots[root] = append(roots[root], t.Free[i])
	}
	nodes := sum(own)
	for _, free := range roots {
		if n, ok := fewest(free, 1, nodes); ok {
			l.Fewest = min(l.Fewest, n)
		}
	}
	return l
}

// Total is how many nodes the job has.
func (l *Layout) Total() int {
	total := l.Apart
	for _, t := range l.Nodes {
		total += t.Nodes
	}
	return total
}

// words says in words what is not as it could be, such as "3 blocks, 2 would have done" and
// "segment 12 got 17+17+2". unit is block, or leaf switch. Without anything to say it is how
// many units the job uses.
func (l *Layout) words(unit string) string {
	text := count(len(l.Nodes), unit)
	if l.Fewest < len(l.Nodes) {
		text += fmt.Sprintf(", %d would have done", l.Fewest)
	}
	if l.Split > 0 {
		text += fmt.Sprintf("; segment %d got %s", l.Segment, l.Parts())
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
func (l *Layout) Parts() string {
	var nodes []int
	for _, t := range l.Nodes {
		nodes = append(nodes, t.Nodes)
	}
	for range l.Apart {
		nodes = append(nodes, 1)
	}
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
