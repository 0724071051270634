package placement

import (
	"fmt"

	"github.com/quoin-hpc/quoin/topology"
)

// sizes returns Slurm's sizes of the blocks of a topology, the base first. There are none without a
// block. places are the blocks in their places.
func (p *part) sizes(places []*domain, policy *Policy) (sizes []int, found problems, err error) {
	base, found := p.settleBase(places, policy)
	found = append(found, p.nameClasses(base, policy)...)
	if len(p.domains) == 0 || base == 0 {
		return nil, found, nil
	}
	if sizes, err = policy.sizes(base); err != nil {
		return nil, nil, err
	}
	if !policy.TreeOnly && len(sizes) > 1 {
		found = append(found, nameOversize(p.domains, base)...)
	}
	return sizes, found, nil
}

// nameOversize names blocks that are larger than the base. Slurm would split them, because there are
// further sizes. With the base alone, Slurm prefers one large block for a job that fits in it.
func nameOversize(blocks []*domain, base int) (found problems) {
	for _, d := range blocks {
		if n := len(d.nodes); n > base {
			found.add("", ReasonAboveBase, fmt.Sprintf("block %s has %d nodes, more than the base block size %d: with further block sizes Slurm places a job of more than %d nodes in two blocks; leave the further sizes out",
				d.name, n, base, base))
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

// segmentsTried is how many sizes of jobs segmentFor tries at most.
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
