package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// JobSizes are numbers of nodes that a job may ask for, as ranges: ascending, none of
// them next to another.
type JobSizes []SizeRange

// SizeRange is the numbers of nodes from First to Last.
type SizeRange struct{ First, Last int }

// ImpossibleJobs returns the sizes of jobs that Slurm refuses although the blocks
// together have the nodes. sizes are Slurm's BlockSizes, blocks the numbers of nodes in
// the order of the file.
//
//   - A job has to fit in one aggregate of the next size, on at most N/below aggregates
//     of the size below that, rounded up. The last aggregate may have fewer blocks.
//   - A job that is larger than the largest size gets at most N/size aggregates of that
//     size, rounded up. Only whole aggregates count. With the base alone these are the
//     blocks.
func ImpossibleJobs(sizes, blocks []int) JobSizes {
	if len(sizes) == 0 || sizes[0] < 1 {
		return nil
	}
	total := sum(blocks)
	base, below := sizes[0], sizes[0]
	var out JobSizes
	first := 1
	for _, size := range sizes {
		out = out.join(impossible(below, inOne(aggregates(blocks, below/base), size/below), first, min(size, total)))
		below, first = size, size+1
	}
	whole := blocks[:len(blocks)-len(blocks)%(below/base)]
	return out.join(impossible(below, largestOf(aggregates(whole, below/base)), first, total))
}

// aggregates returns the nodes in each aggregate of n blocks.
func aggregates(blocks []int, n int) []int {
	out := make([]int, 0, len(blocks)/n+1)
	for of := range slices.Chunk(blocks, n) {
		out = append(out, sum(of))
	}
	return out
}

// impossible returns the impossible sizes from first to last. usable[k] is what a job of
// up to (k+1) x base nodes may use. A larger one may use no more than the last of usable.
func impossible(base int, usable []int, first, last int) JobSizes {
	var out JobSizes
	most := 0
	for k := 0; k*base < last; k++ {
		if k < len(usable) {
			most = usable[k]
		}
		if r := (SizeRange{First: max(k*base, most, first-1) + 1, Last: min((k+1)*base, last)}); r.First <= r.Last {
			out = out.join(JobSizes{r})
		}
	}
	return out
}

// inOne returns what the largest 1, 2, ... n blocks of one aggregate hold at most.
func inOne(blocks []int, n int) []int {
	if n == 1 && len(blocks) > 0 {
		return []int{slices.Max(blocks)}
	}
	most := make([]int, min(n, len(blocks)))
	for of := range slices.Chunk(blocks, n) {
		sums := largestOf(of)
		for k := range most {
			most[k] = max(most[k], sums[min(k, len(sums)-1)])
		}
	}
	return most
}

// largestOf returns what the largest 1, 2, ... of the blocks hold together.
func largestOf(blocks []int) []int {
	sums := slices.Clone(blocks)
	slices.Sort(sums)
	slices.Reverse(sums)
	for i := 1; i < len(sums); i++ {
		sums[i] += sums[i-1]
	}
	return sums
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}

// join returns both as one. All of more is above all of s.
func (s JobSizes) join(more JobSizes) JobSizes {
	if len(s) == 0 || len(more) == 0 || s[len(s)-1].Last+1 < more[0].First {
		return append(s, more...)
	}
	s[len(s)-1].Last = more[0].Last
	return append(s, more[1:]...)
}

// count returns how many sizes there are.
func (s JobSizes) count() int {
	n := 0
	for _, r := range s {
		n += r.Last - r.First + 1
	}
	return n
}

// Has reports whether a size is among the sizes.
func (s JobSizes) Has(size int) bool {
	return slices.ContainsFunc(s, func(r SizeRange) bool { return r.First <= size && size <= r.Last })
}

// maxRanges is how many ranges String writes.
const maxRanges = 10

// String returns the ranges such as "10-12,18", the first ones if there are many.
func (s JobSizes) String() string {
	var parts []string
	for i, r := range s {
		if i == maxRanges {
			return fmt.Sprintf("%s and more, up to %d", strings.Join(parts, ","), s[len(s)-1].Last)
		}
		parts = append(parts, between(r.First, r.Last))
	}
	return strings.Join(parts, ",")
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
	if classes := largestOfEach(groupSizes(racks)); !one && len(classes) > 1 {
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
				segments := 0
				for _, c := range counts {
					segments += c / size
				}
				if n%size == 0 && segments >= n/size {
					nodes, segment = n, size
				}
			}
		}
	}
	return nodes, segment
}
