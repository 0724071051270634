package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
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
	// Unsaid are nodes whose state is not known, nor whether Slurm has them.
	Unsaid []string
	// once says that Slurm tries one place and no other.
	once bool
}

// defaultLevels is how many levels of blocks Slurm has if the file has no BlockSizes.
const defaultLevels = 5

// NewSite returns the site of a topology. Apart and State are not known yet.
func NewSite(t *topology.Topology, release slurmconf.Release) *Site {
	s := &Site{Release: release}
	switch t.Kind {
	case topology.KindBlock:
		s.Blocks, s.Sizes = t.Blocks, t.Sizes
		if len(s.Sizes) == 0 {
			first := slices.IndexFunc(t.Blocks, func(b topology.Block) bool { return len(b.Nodes) > 0 })
			for k := range defaultLevels {
				if first >= 0 {
					s.Sizes = append(s.Sizes, len(t.Blocks[first].Nodes)<<k)
				}
			}
		}
	case topology.KindTree:
		s.tops(t.Switches)
	}
	return s
}

// tops finds the switches of a tree without a switch above.
func (s *Site) tops(switches []topology.Switch) {
	by, above := make(map[string]*topology.Switch, len(switches)), map[string]int{}
	for i := range switches {
		by[switches[i].Name] = &switches[i]
		for _, child := range switches[i].Children {
			above[child]++
			s.Shared = s.Shared || above[child] > 1
		}
	}
	for i := range switches {
		if above[switches[i].Name] > 0 {
			continue
		}
		top := topology.Block{Name: switches[i].Name}
		below, seen := []string{top.Name}, map[string]bool{}
		for len(below) > 0 {
			name := below[0]
			below = below[1:]
			if sw := by[name]; sw != nil && !seen[name] {
				top.Nodes, below = append(top.Nodes, sw.Nodes...), append(below, sw.Children...)
			}
			seen[name] = true
		}
		s.Blocks = append(s.Blocks, top)
	}
}

// HasBlocks reports whether it is a block topology.
func (s *Site) HasBlocks() bool { return len(s.Sizes) > 0 }

// release is the release whose rules count.
func (s *Site) release() slurmconf.Release { return cmp.Or(s.Release, slurmconf.Latest) }

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
	Now     Verdict = "now"
	NotNow  Verdict = "not now"
	Never   Verdict = "never"
	Unknown Verdict = "unknown"
)

// Answer says whether a job can start, and where or why not.
type Answer struct {
	Verdict Verdict
	// Why says why the job can never start, or what is not known. Remedy says how it can become
	// known.
	Why, Remedy string
	// Place is what the job would get: now, or when the needed nodes are free and available.
	Place Place
	// Needs are nodes that would do if they were up, free and available. There may be others.
	Needs []Need
}

// Need says how many nodes of a block are missing.
type Need struct {
	Block string
	Count int
	// Nodes are the nodes that are not up and free. Any Count of these will do if the first in
	// the list are taken first: powered down, then busy.
	Nodes []string
}

// view is what a request sees of a site: how many nodes of each block are free, how many would
// be if all jobs ended and all nodes were powered up, and if all nodes were available too.
type view struct{ free, available, all blocks }

// view counts the nodes. Slurm takes nodes with fewer GPUs than prefer last, as it does with
// nodes that are powered down.
func (s *Site) view(r *Request, prefer int) view {
	var v view
	views := [...]*blocks{Free: &v.free, Busy: &v.available, Unavailable: &v.all}
	for _, of := range views {
		of.Sizes, of.Free = s.Sizes, make([]int, len(s.Blocks))
		of.Once, of.Shrinks = prefer > 0 || s.once, r.Exclusive
		if !s.HasBlocks() { // any number of nodes below one switch
			of.Sizes, of.Alone = anySize, len(s.Blocks) > 0
		}
	}
	for i := range s.Blocks {
		n, less, nodes := 0, 0, s.count(r, s.Blocks[i].Nodes, prefer)
		for use, of := range views { // a node counts from its use on
			n, less = n+nodes[use].all, less+nodes[use].less
			last := less // of the nodes that Slurm takes
			if Use(use) == Free {
				last += nodes[use].off
			}
			of.Free[i] = n
			if last > 0 && of.Off == nil {
				of.Off = make([]int, len(s.Blocks))
			}
			if last > 0 {
				of.Off[i] = last
			}
		}
		if r.Exclusive && s.busy(s.Blocks[i].Nodes) {
			v.free.Free[i] = 0
			if v.free.Off != nil {
				v.free.Off[i] = 0
			}
		}
	}
	n, nodes := 0, s.count(r, s.Apart, 0)
	for use, of := range views {
		n += nodes[use].all
		of.Apart = n
	}
	return v
}

// busy reports whether a node has a job.
func (s *Site) busy(nodes []string) bool {
	return slices.ContainsFunc(nodes, func(node string) bool { return s.State(node).Use == Busy })
}

// counted is how many nodes of a use a request takes, how many of these have fewer GPUs than
// others, and how many of the rest are powered down.
type counted struct{ all, less, off int }

// count counts nodes by their use.
func (s *Site) count(r *Request, nodes []string, prefer int) (by [len(Uses)]counted) {
	for _, node := range nodes {
		state := s.State(node)
		if !r.takes(state) {
			continue
		}
		n := &by[state.Use]
		n.all++
		if max(state.GPUs, 0) < prefer {
			n.less++
		} else if state.Off && s.HasBlocks() {
			n.off++
		}
	}
	return by
}

// ready reports whether a node of a block or below a switch is as good as any: it is free, and in
// a block topology it is up. Trees take nodes that are powered down as well.
func (s *Site) ready(state State) bool { return state.Use == Free && (!state.Off || !s.HasBlocks()) }

// isFree reports whether a node is free, up or powered down.
func isFree(state State) bool { return state.Use == Free }

// anySize are the sizes if one block may have all nodes of a job.
var anySize = []int{math.MaxInt32}

// takes reports whether the node is in Slurm, and has what the request asks of each. Whether it has
// is not known if nobody said how many GPUs it has.
func (r *Request) takes(state State) bool {
	return state.Use != Absent && (r.GPUs == 0 || state.GPUs >= r.GPUs)
}

// Answer says whether the job can start. The words of the request have been checked.
func (s *Site) Answer(r *Request) Answer {
	if why := s.refused(r); why != "" {
		return Answer{Verdict: Never, Why: why}
	}
	if !s.HasBlocks() { // the segment does not count
		r = &Request{Job: Job{Nodes: r.Nodes}, GPUs: r.GPUs}
	}
	if len(s.Unsaid) == 0 {
		return s.answerSaid(r)
	}
	most, least := s.suppose(Free).answerSaid(r), s.suppose(Absent).answerSaid(r)
	busy := least
	if r.Exclusive { // a busy node closes its block
		busy = s.suppose(Busy).answerSaid(r)
	}
	switch {
	case most.Verdict == Unknown:
		return most
	case most.Verdict == Never && least.Verdict == Never:
		return most
	case most.Verdict == least.Verdict && most.Verdict == busy.Verdict:
		return least
	}
	why := "the states of these nodes are not known: " + listed(s.Unsaid)
	if len(s.Unsaid) == len(s.Nodes()) {
		why = "the job fits if all nodes are free, and nobody said which are"
	}
	return Answer{Verdict: Unknown, Place: most.Place, Why: why, Remedy: AskStates}
}

// AskStates is what to do if the states of some nodes are not known, or their numbers of GPUs.
const AskStates = "give --sinfo the output of sinfo -a -h -N -o '%N %T %G', or set slurm.url or slurm.scontrol of the publication"

// suppose returns the site as it would be if all nodes of unknown state had this use.
func (s *Site) suppose(use Use) *Site {
	unsaid := make(map[string]bool, len(s.Unsaid))
	for _, node := range s.Unsaid {
		unsaid[node] = true
	}
	site := *s
	site.State = func(node string) State {
		state := s.State(node)
		if unsaid[node] {
			return State{Use: use, GPUs: state.GPUs}
		}
		return state
	}
	return &site
}

// answerSaid answers a request that Slurm does not refuse for its words. The use of each node is
// known.
func (s *Site) answerSaid(r *Request) Answer {
	tries, known := s.release().TriesPlaces()
	once := *s
	once.once = true
	switch {
	case known && tries:
		return s.answerFor(r)
	case known:
		return once.answerFor(r)
	}
	a := s.answerFor(r)
	if once.answerFor(r).Verdict != a.Verdict {
		return Answer{Verdict: Unknown, Place: a.Place, Why: fmt.Sprintf("Slurm gets stuck with the first place that it tries, and whether %s tries another one is not known", s.release()), Remedy: askSlurm}
	}
	return a
}

// answerFor answers a request if it is known whether Slurm tries a second place.
func (s *Site) answerFor(r *Request) Answer {
	a := s.answer(r, 0)
	if r.GPUs == 0 {
		return a
	}
	unknown, most, fewest := s.gpus(r)
	if len(unknown) > 0 {
		may := *s
		may.State = func(node string) State {
			state := s.State(node)
			state.GPUs = cmp.Or(state.GPUs, r.GPUs)
			return state
		}
		if b := may.answer(r, 0); a.Verdict != b.Verdict {
			return Answer{Verdict: Unknown, Place: b.Place, Why: "the number of GPUs of these nodes is not known: " + listed(unknown), Remedy: AskStates}
		}
	}
	lit := *s // the number of GPUs may count before power does
	lit.State = func(node string) State {
		state := s.State(node)
		state.Off = false
		return state
	}
	if s.HasBlocks() && fewest < most && (s.answer(r, most).Verdict != a.Verdict || lit.answer(r, most).Verdict != a.Verdict) {
		return Answer{Verdict: Unknown, Place: a.Place, Why: "the nodes have different numbers of GPUs, and which nodes Slurm takes first for GPUs is not known", Remedy: askSlurm}
	}
	return a
}

// gpus returns the nodes that nobody counted the GPUs of, and the most and fewest GPUs of the
// nodes that the request takes.
func (s *Site) gpus(r *Request) (unknown []string, most, fewest int) {
	for _, node := range s.Nodes() {
		switch state := s.State(node); {
		case state.Use == Absent:
		case state.GPUs == 0:
			unknown = append(unknown, node)
		case r.takes(state):
			if fewest == 0 {
				fewest = state.GPUs
			}
			most, fewest = max(most, state.GPUs), min(fewest, state.GPUs)
		}
	}
	return unknown, most, fewest
}

// listed is a host list of names, shortened.
func listed(names []string) string { return hostlist.Shorten(hostlist.Compress(names)) }

// Nodes are all nodes that a job may have.
func (s *Site) Nodes() []string {
	all := slices.Clone(s.Apart)
	for i := range s.Blocks {
		all = append(all, s.Blocks[i].Nodes...)
	}
	return all
}

// refused says why Slurm refuses the words of a request, whatever nodes there are.
func (s *Site) refused(r *Request) string {
	release := s.release()
	switch {
	case r.Segment == 0:
		return ""
	case (r.Spread || r.Consolidate) && !release.LargeSegments():
		return fmt.Sprintf("Slurm %s has no --spread-segments and no --consolidate-segments", release)
	case !s.HasBlocks() && !release.LargeSegments():
		return "" // 24.11 looks at segments in blocks only
	case r.Nodes%r.Segment != 0 && (r.Segment < r.Nodes || !release.LargeSegments()):
		return fmt.Sprintf("Slurm refuses %d nodes, because they are no multiple of the segment of %d", r.Nodes, r.Segment)
	case s.HasBlocks() && r.Segment > s.Sizes[0] && !release.LargeSegments():
		return fmt.Sprintf("Slurm %s refuses a segment of %d nodes, because it is larger than the base block size of %d", release, r.Segment, s.Sizes[0])
	}
	return ""
}

const askSlurm = "ask Slurm itself: sbatch --test-only"

// answer is the answer if Slurm takes nodes with fewer GPUs than prefer last.
func (s *Site) answer(r *Request, prefer int) Answer {
	v := s.view(r, prefer)
	place, fits := v.free.find(&r.Job)
	switch {
	case fits == yes && s.Shared && r.Nodes > 1:
		return Answer{Verdict: Unknown, Place: place, Why: "a switch of the tree is below two others, and how Slurm places jobs there is not known", Remedy: "give each switch one parent"}
	case fits == yes:
		return Answer{Verdict: Now, Place: place}
	case fits == maybe:
		return Answer{Verdict: Unknown, Place: place, Why: "Slurm gets stuck with the first place that it tries, and which it tries next is not known", Remedy: askSlurm}
	}
	for _, full := range []*blocks{&v.available, &v.all} {
		switch place, fits := full.find(&r.Job); fits {
		case yes:
			return s.wait(r, &v.free, full, place)
		case maybe:
			return Answer{Verdict: Unknown, Why: "not now, but perhaps when all nodes are free: Slurm gets stuck with the first place that it tries then, and which it tries next is not known", Remedy: askSlurm}
		}
	}
	why := v.all.never(&r.Job)
	if !s.HasBlocks() {
		why = s.neverBelow(&v.all, r.Nodes)
	}
	if r.GPUs > 0 {
		why = fmt.Sprintf("of nodes with %d GPUs or more: %s", r.GPUs, why)
	}
	absent := slices.DeleteFunc(s.Nodes(), func(node string) bool { return s.State(node).Use != Absent })
	if len(absent) > 0 {
		why += "; not in Slurm are: " + listed(absent)
	}
	return Answer{Verdict: Never, Why: why}
}

// neverBelow says why a job does not fit below a switch if all nodes are free and available.
func (s *Site) neverBelow(all *blocks, nodes int) string {
	if len(s.Blocks) == 0 {
		return fmt.Sprintf("the topology has %s, and the job asks for %d", count(all.Apart, "node"), nodes)
	}
	most := 0
	for i, free := range all.Free {
		if free > all.Free[most] {
			most = i
		}
	}
	why := fmt.Sprintf("all nodes of a job must be below one switch, and the largest, %s, has %d", s.Blocks[most].Name, all.Free[most])
	if all.Apart > 0 {
		why += fmt.Sprintf("; %d nodes are below no switch and run jobs of one node only", all.Apart)
	}
	return why
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
	if now.Off != nil || full.Off != nil {
		try.Off = make([]int, len(order))
	}
	// The fewest blocks of the order that do when all their nodes are back.
	from, to := 0, len(order)
	for from < to {
		mid := (from + to) / 2
		for k, i := range order {
			from := now
			if k < mid {
				from = full
			}
			if try.Free[i] = from.Free[i]; try.Off != nil {
				try.Off[i] = from.off(i)
			}
		}
		if p, fits := try.find(&r.Job); fits == yes {
			to, place, does.Free, does.Off = mid, p, slices.Clone(try.Free), slices.Clone(try.Off)
		} else {
			from = mid + 1
		}
	}
	a := Answer{Verdict: NotNow}
	for _, power := range []bool{false, true} {
		need := needed(now, full, place, power)
		if p, fits := need.find(&r.Job); fits == yes {
			a.Place, a.Needs = p, s.allNeeds(r, now, need, p.Apart)
			// For an exclusive job more nodes become free than it takes. If these are up, Slurm may
			// prefer them to powered-down nodes.
			if !r.Exclusive || now.Off == nil {
				return a
			}
			v := s.after(a.Needs).view(r, 0)
			if _, fits := v.free.find(&r.Job); fits == yes {
				return a
			}
		}
	}
	a.Place, a.Needs = place, s.allNeeds(r, now, &does, place.Apart) // with fewer free nodes Slurm may begin in a block where it gets stuck
	return a
}

// allNeeds are the nodes that must come back until need is free, and so many nodes in no block.
func (s *Site) allNeeds(r *Request, now, need *blocks, apart int) (all []Need) {
	for i, count := range need.Free {
		if up := count - need.off(i); up > now.Free[i]-now.off(i) {
			all = append(all, s.needs(r, i, up, need.off(i))...)
		}
	}
	if apart > now.Apart {
		all = append(all, Need{Count: apart - now.Apart, Nodes: s.notFree(r, s.Apart, isFree)})
	}
	return all
}

// after is the site when the needed nodes are up and free.
func (s *Site) after(needs []Need) *Site {
	back := map[string]bool{}
	for _, need := range needs {
		for _, node := range need.Nodes[:need.Count] {
			back[node] = true
		}
	}
	after := *s
	after.State = func(node string) State {
		state := s.State(node)
		if back[node] {
			return State{GPUs: state.GPUs}
		}
		return state
	}
	return &after
}

// lacks is how many nodes of a block must come back until one more segment fits there.
func (r *Request) lacks(now, full *blocks, block int) int {
	size := cmp.Or(r.Segment, r.Nodes)
	size = min(size, full.Sizes[0])
	up := now.Free[block] - now.off(block)
	lacks := size - up%size
	if up+lacks > full.Free[block] {
		lacks += full.Sizes[0] // none more fits: last
	}
	return lacks
}

// needed is what is free if only the nodes that the place takes come back. With power, Slurm also
// powers up those that the place takes.
func needed(now, full *blocks, place Place, power bool) *blocks {
	need := *now
	need.Free, need.Off = slices.Clone(now.Free), slices.Clone(now.Off)
	taken := make([]int, len(now.Free))
	for _, segment := range place.Segments {
		for _, t := range segment {
			taken[t.Block] += t.Nodes
			need.Free[t.Block] = min(max(now.Free[t.Block], taken[t.Block]), full.Free[t.Block])
			if need.Off != nil && power {
				need.Off[t.Block] = min(now.Off[t.Block], max(0, now.Free[t.Block]-taken[t.Block]))
			}
		}
	}
	need.Apart = max(now.Apart, place.Apart)
	return &need
}

// needs names the nodes of a block that are not up and free, if so many are to be, beside so many
// that stay powered down. For an exclusive job all jobs of the block must end.
func (s *Site) needs(r *Request, block, count, off int) (out []Need) {
	b := &s.Blocks[block]
	for _, node := range b.Nodes {
		state := s.State(node)
		switch {
		case !r.takes(state):
		case s.ready(state):
			count--
		case state.Off:
			off--
		}
	}
	ready := s.ready
	if off >= 0 { // all of them may stay as they are
		ready = isFree
	}
	nodes := s.notFree(r, b.Nodes, ready)
	if busy := slices.IndexFunc(append(nodes, ""), func(node string) bool { return node == "" || s.State(node).Use != Busy }); r.Exclusive && busy > 0 {
		out = append(out, Need{b.Name, busy, nodes[:busy]})
		for _, node := range nodes[:busy] {
			if r.takes(s.State(node)) {
				count--
			}
		}
		nodes = nodes[busy:]
	}
	if count > 0 {
		out = append(out, Need{b.Name, count, nodes})
	}
	return out
}

// notFree are nodes that are not ready, in the order in which they are likely to be: powered
// down, busy, unavailable. For an exclusive job the busy ones come first.
func (s *Site) notFree(r *Request, nodes []string, ready func(State) bool) []string {
	var out []string
	for _, node := range nodes {
		if state := s.State(node); !ready(state) && (r.takes(state) || r.Exclusive && state.Use == Busy) {
			out = append(out, node)
		}
	}
	order := func(node string) Use {
		use := s.State(node).Use
		if r.Exclusive && use == Busy {
			return Free - 1
		}
		return use
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
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
	v := s.view(r, 0)
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
		if _, fits := b.find(&Job{Nodes: mid * size, Segment: size}); fits == yes {
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
		return fmt.Sprintf("the topology has %s, and the job asks for %d", count(max(total, b.Apart), "node"), j.Nodes)
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
	s := b.search(j, b.Free, nil)
	if level, _ := b.levels(size); level >= 0 {
		most := 0
		for of := range slices.Chunk(b.Free, s.perBlock) {
			most = max(most, sum(of))
		}
		return fmt.Sprintf("%s of %d nodes must be in one block of BlockSize %d, and the largest has %d nodes", what, size, b.Sizes[0]<<level, most)
	}
	return fmt.Sprintf("%s of %d nodes may use at most %d blocks of BlockSize %d, and the largest have %d nodes together", what, size, s.maxLower, b.Sizes[0]<<s.level, s.usable(b.Free))
}
