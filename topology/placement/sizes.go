package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// nameBlocks names every block: published names stay, and a new block gets the
// shortest of its names that no other block could have.
func nameBlocks(s *site, matched []block) []block {
	blocks := slices.Clone(matched)
	uses := make(map[string]int, len(blocks))
	for i := range blocks {
		b := &blocks[i]
		if b.published != none {
			b.name = s.prev.blocks[b.published].Name
			uses[b.name]++
			continue
		}
		for _, name := range b.names {
			uses[name]++
		}
	}
	for i := range blocks {
		b := &blocks[i]
		if b.published != none {
			continue
		}
		b.name = b.names[len(b.names)-1]
		if at := slices.IndexFunc(b.names[:], func(name string) bool { return uses[name] == 1 }); at >= 0 {
			b.name = b.names[at]
		}
	}
	return blocks
}

// sizing is the blocks that the plan has, and Slurm's sizes of them.
type sizing struct {
	blocks  []block
	base    int   // 0 without a block
	sizes   []int // the base first
	leftOut leftOut
}

// leftOut are nodes in no block and why, by index into the site's facts.
type leftOut map[int]verdict

func (l leftOut) add(nodes []int, reason, message string) {
	for _, i := range nodes {
		l[i] = verdict{reason: reason, message: message}
	}
}

// leaveOutSmall leaves out new blocks with fewer nodes than Policy.MinBlockNodes. A machine whose
// NVLink ends inside may be a domain of its own, and no further node would make a block of it.
func leaveOutSmall(s *site, blocks []block) (kept []block, left leftOut) {
	kept, left = make([]block, 0, len(blocks)), leftOut{}
	for _, b := range blocks {
		if n := max(len(b.nodes), b.domain); b.published == none && (n < s.policy.MinBlockNodes || len(b.nodes) == 0) {
			if n == 1 && len(b.nodes) == 1 && !s.policy.ByLeaf && s.facts[b.nodes[0]].Fabric.IMEX == topology.IMEXNone {
				left.add(b.nodes, ReasonNoDomain, endsInside(s.facts[b.nodes[0]])+": its NVLink domain is this node alone")
				continue
			}
			left.add(b.nodes, ReasonSmallDomain, fmt.Sprintf("its %s has %d node, and a block needs %d", b.title(), n, s.policy.MinBlockNodes))
			continue
		}
		kept = append(kept, b)
	}
	return kept, left
}

// sizeBlocks settles the base block size of a topology. It leaves out new blocks that
// are too small for the Slurm release.
func sizeBlocks(s *site, p *part) (sizing, problems, error) {
	z := sizing{blocks: p.blocks, leftOut: leftOut{}}
	base, found := s.settleBase(p)
	found = append(found, s.nameClasses(p, base)...)
	if !s.policy.ShortBlocks {
		var gone problems
		z.blocks, gone = keepGone(s, z.blocks)
		found = append(found, gone...)
		z.dropShort(base)
	}
	if len(z.blocks) == 0 || base == 0 {
		return z, found, nil
	}
	var err error
	if z.sizes, err = s.policy.sizes(base); err != nil {
		return z, nil, err
	}
	z.base = base
	if s.policy.TreeOnly {
		return z, found, nil
	}
	return z, append(found, z.nameOversize()...), nil
}

// nameOversize names blocks that are larger than the base and that Slurm would split.
// With the base alone, Slurm prefers one large block for a job that fits in it.
func (z *sizing) nameOversize() problems {
	var found problems
	for i := range z.blocks {
		if n := z.blocks[i].size(); n > z.base && len(z.sizes) > 1 {
			found.add("", ReasonAboveBase, fmt.Sprintf("block %s has %d nodes, more than the base block size %d: with further block sizes Slurm places a job of more than %d nodes in two blocks; leave the further sizes out",
				z.blocks[i].name, n, z.base, z.base))
		}
	}
	return found
}

// nameImpossible names the sizes of jobs that cannot run in a topology, and what would let them run.
func nameImpossible(policy *Policy, name string, sizes []int, blocks []topology.Block) problems {
	counts, racks := make([]int, len(blocks)), make([]int, len(blocks))
	for i := range blocks {
		counts[i], racks[i] = len(blocks[i].Nodes), blocks[i].Size
	}
	impossible := ImpossibleJobs(sizes, counts)
	if len(impossible) == 0 {
		return nil
	}
	base := sizes[0]
	text := fmt.Sprintf("jobs of %s nodes cannot run in topology %s: Slurm gives a job of N nodes at most N/%d blocks, rounded up, and the largest blocks hold fewer nodes", impossible, name, base)
	if len(sizes) > 1 {
		text = fmt.Sprintf("jobs of %s nodes cannot run in topology %s: Slurm gives a job groups of blocks of the sizes %v, and the largest of these groups hold fewer nodes", impossible, name, sizes)
	}
	smallerText := ""
	if smaller := policy.smallerBase(base, counts); smaller > 0 {
		smallerText = fmt.Sprintf("; with baseBlockSize: %d all can, and jobs of %s nodes may use %s", smaller, between(smaller+1, base), racksFor(base, smaller))
	}
	one := !policy.Divide || policy.OneTopology || policy.ByLeaf || len(policy.SizeClasses) > 0
	if classes := sizeClasses(racks, false); !one && len(classes) > 1 {
		text += fmt.Sprintf("; sizeClasses: [%s] gives each size of rack a topology of its own", listed(classes))
	}
	text += smallerText + "; or the job asks for segments"
	if n, segment := segmentFor(impossible, base, counts); segment > 0 {
		text += fmt.Sprintf(", such as sbatch -N %d --segment=%d", n, segment)
	}
	var found problems
	found.add("", ReasonJobSizes, text)
	return found
}

// smallerBase returns the largest base below a base that makes no size of jobs impossible, or 0.
func (p *Policy) smallerBase(base int, counts []int) int {
	for base--; base > 0; base-- {
		if sizes, err := p.sizes(base); err == nil && len(ImpossibleJobs(sizes, counts)) == 0 {
			return base
		}
	}
	return 0
}

// segmentsTried is for how many sizes of jobs segmentFor looks for a segment.
const segmentsTried = 100

// segmentFor returns one of the first impossible sizes and the largest segment, up to the base, with
// which such a job can run: a block of M nodes holds M/segment segments. Both are 0 if there is none.
func segmentFor(impossible JobSizes, base int, counts []int) (nodes, segment int) {
	tried := 0
	for _, r := range impossible {
		for n := r.First; n <= r.Last && tried < segmentsTried; n++ {
			tried++
			for size := min(base, n-1); size > segment; size-- {
				held := 0
				for _, c := range counts {
					held += c / size
				}
				if n%size == 0 && held >= n/size {
					nodes, segment = n, size
				}
			}
		}
	}
	return nodes, segment
}

// keepGone keeps the names of nodes that no longer exist in blocks that would
// otherwise fall below the published base block size. It is for releases that would
// not start with such a block.
func keepGone(s *site, blocks []block) ([]block, problems) {
	kept := slices.Clone(blocks)
	var found problems
	for i := range kept {
		b := &kept[i]
		if b.published == none || len(b.nodes) >= s.prev.base {
			continue
		}
		for _, n := range s.prev.blocks[b.published].Nodes {
			if _, exists := s.find(n); !exists {
				b.gone = append(b.gone, n)
			}
		}
		if len(b.gone) > 0 {
			found.add("", ReasonKeptGone, fmt.Sprintf("block %s keeps %s, which no longer exist: with %d nodes it would be smaller than the base block size %d, and this Slurm release would not start",
				b.name, strings.Join(b.gone, ","), len(b.nodes), s.prev.base))
		}
	}
	return kept, found
}

// dropShort leaves out new blocks with fewer nodes than base, and placeholders.
func (z *sizing) dropShort(base int) {
	kept := make([]block, 0, len(z.blocks))
	for _, b := range z.blocks {
		if n := b.size(); (b.published == none || n == 0) && n < base {
			z.leftOut.add(b.nodes, ReasonBelowBase, fmt.Sprintf("its %s has %d nodes, the base block size is %d, and this Slurm release does not start with a smaller block", b.title(), n, base))
			continue
		}
		kept = append(kept, b)
	}
	z.blocks = kept
}

// has reports whether a block is called so.
func (z *sizing) has(name string) bool {
	return slices.ContainsFunc(z.blocks, func(b block) bool { return b.name == name })
}
