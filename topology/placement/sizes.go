package placement

import (
	"fmt"
	"slices"

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

// sizeBlocks returns Slurm's sizes of the blocks of a topology, the base first. There are none without a
// block.
func sizeBlocks(s *site, p *part) (sizes []int, found problems, err error) {
	base, found := s.settleBase(p)
	found = append(found, s.nameClasses(p, base)...)
	if len(p.blocks) == 0 || base == 0 {
		return nil, found, nil
	}
	if sizes, err = s.policy.sizes(base); err != nil {
		return nil, nil, err
	}
	if !s.policy.TreeOnly && len(sizes) > 1 {
		found = append(found, nameOversize(p.blocks, base)...)
	}
	return sizes, found, nil
}

// nameOversize names blocks that are larger than the base. Slurm would split them, because there are
// further sizes. With the base alone, Slurm prefers one large block for a job that fits in it.
func nameOversize(blocks []block, base int) problems {
	var found problems
	for i := range blocks {
		if n := len(blocks[i].nodes); n > base {
			found.add("", ReasonAboveBase, fmt.Sprintf("block %s has %d nodes, more than the base block size %d: with further block sizes Slurm places a job of more than %d nodes in two blocks; leave the further sizes out",
				blocks[i].name, n, base, base))
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
	one := policy.OneTopology || policy.ByLeaf || len(policy.SizeClasses) > 0
	if classes := sizeClasses(racks); !one && len(classes) > 1 {
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
