package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// impossibleShare: a chosen base may make at most one in so many sizes of jobs impossible.
const impossibleShare = 10

// sizes returns Slurm's sizes of the blocks of a topology, the base first. There are none without a
// block. blocks are in their positions, nil for one that is kept free.
func (p *part) sizes(blocks []*domain, policy *Policy) (sizes []int, found problems, err error) {
	base, found := p.baseSize(blocks, policy)
	found = append(found, p.nameClasses(base, policy)...)
	if len(p.domains) == 0 || base == 0 {
		return nil, found, nil
	}
	if sizes, err = policy.sizes(base); err != nil {
		return nil, nil, err
	}
	return sizes, found, nil
}

// baseSize returns the base block size of a topology: the configured one, else the one that its
// domains give. The published one is kept while the change waits. blocks are in their positions.
func (p *part) baseSize(blocks []*domain, policy *Policy) (base int, found problems) {
	if p.set > 0 {
		return p.set, nil
	}
	base = p.chooseBase(policy)
	switch _, err := policy.sizes(base); {
	case p.published == 0 || base == p.published:
		return base, nil
	case err != nil: // the further sizes are for the published one
		return p.published, nil
	case policy.TreeOnly, !p.hasBase: // no job relies on it
		return base, nil
	}
	text := policy.baseChangeText(p.name, p.published, base, countNodes(blocks))
	if policy.follow(Choice{Decision: Decision{BaseSizeChange, p.name, strconv.Itoa(p.published), strconv.Itoa(base)}, Message: text}) != nil {
		found.add("", BaseSizeChange, text)
		return p.published, found
	}
	return base, nil
}

// countNodes counts the nodes of the block in each position.
func countNodes(blocks []*domain) []int {
	counts := make([]int, len(blocks))
	for at, d := range blocks {
		if d != nil {
			counts[at] = len(d.nodes)
		}
	}
	return counts
}

// chooseBase returns the base block size that the domains of a topology give, or the published one
// if they give none.
func (p *part) chooseBase(policy *Policy) int {
	classes := p.classes(policy)
	if len(classes) == 0 {
		return p.published
	}
	first := policy.largestBase(classes[0])
	if p.published == 0 || len(classes) == 1 {
		return first
	}
	// Racks of several size classes are in one topology until people set sizeClasses. Any base
	// between those of the classes is as good as another.
	last := policy.largestBase(classes[len(classes)-1])
	return min(max(p.published, min(first, last)), max(first, last))
}

// classes returns the sizes of the domains of each size class in a topology, the class of the
// largest first. A published block counts as whole if nobody knows how many nodes it has had.
func (p *part) classes(policy *Policy) [][]int {
	var sizes []int
	for _, d := range p.domains {
		n := d.size
		if n > 0 && d.old != nil && d.old.Size == 0 {
			n = max(n, d.old.base)
		}
		if n > 0 {
			sizes = append(sizes, n)
		}
	}
	sizes = withSimilar(sizes, p.unnamed)
	switch {
	case len(sizes) == 0:
		return nil
	case policy.ByLeaf:
		return [][]int{sizes}
	}
	return groupSizes(sizes)
}

// nameClasses says that racks of several size classes are in one topology, and that a base below that
// of the large ones lets Slurm split jobs that would fit in one of them.
func (p *part) nameClasses(base int, policy *Policy) problems {
	if p.set > 0 || policy.OneTopology || policy.TreeOnly {
		return nil
	}
	classes := p.classes(policy)
	if len(classes) < 2 || base >= policy.largestBase(classes[0]) {
		return nil
	}
	tops := largestOfEach(classes)
	var found problems
	found.add("", ReasonClassesUnset, fmt.Sprintf("topology %s has racks of several sizes and base block size %d: jobs of %s nodes may use %s, although a large rack could hold them; sizeClasses: [%s] gives each size of rack a topology of its own",
		p.name, base, between(base+1, tops[0]), racksFor(tops[0], base), listed(tops)))
	return found
}

// listed writes numbers as a list of YAML has them.
func listed(numbers []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ", ")
}

// withSimilar adds the sizes of domains without a node in Slurm that are of the size class of the
// largest size.
func withSimilar(sizes, unnamed []int) []int {
	if len(sizes) == 0 {
		return nil
	}
	top, all := slices.Max(sizes), slices.Clone(sizes)
	for _, n := range unnamed {
		if isLike(top, n) || isLike(n, top) {
			all = append(all, n)
		}
	}
	return all
}

// largestBase returns the largest base that at least half of the domains reach and that makes
// at most one size of jobs in ten impossible. If there are further sizes and none of them is a
// multiple of such a base, it returns one that the further sizes are for.
func (p *Policy) largestBase(domains []int) int {
	sorted := slices.Sorted(slices.Values(domains))
	top, reached, least := sorted[len(sorted)-1], min(sorted[len(sorted)/2], MaxBlockSize), 1
	if len(p.BlockSizes) > 0 {
		least = (2*top + 2) / 3 // as small as a rack of the class
	}
	fits := func(base int) bool { return CheckBlockSizes(base, p.BlockSizes) == nil }
	for base := reached; base >= least; base-- {
		if fits(base) && impossibleShare*ImpossibleJobs([]int{base}, domains).count() <= sum(domains) {
			return base
		}
	}
	for base := top; base >= least; base-- {
		if fits(base) {
			return base
		}
	}
	return reached
}

// baseChangeText says what a change of the base block size means for jobs. counts are the nodes in each position
// of the topology.
func (p *Policy) baseChangeText(name string, from, to int, counts []int) string {
	refused := func(base int) JobSizes {
		all, err := p.sizes(base)
		if err != nil {
			all = []int{base}
		}
		return ImpossibleJobs(all, counts)
	}
	text := fmt.Sprintf("the domains of topology %s give base block size %d, and %d is published. With %d, ", name, to, from, to)
	if to > from {
		text += fmt.Sprintf("jobs of %s nodes stay in one rack, and now they may use %s", between(from+1, to), racksFor(to, from))
	} else {
		text += fmt.Sprintf("jobs of %s nodes may use %s", between(to+1, from), racksFor(from, to))
	}
	if now := refused(from); len(now) > 0 {
		text += fmt.Sprintf("; now jobs of %s nodes cannot run", now)
	}
	if then := refused(to); len(then) > 0 {
		text += fmt.Sprintf("; then jobs of %s nodes cannot run", then)
	}
	return text + ". What to do: " + topology.Explain(BaseSizeChange).Remedy
}

// racksFor says in how many racks a job of n nodes is if Slurm keeps base nodes in one.
func racksFor(n, base int) string {
	if racks := (n + base - 1) / base; racks > 2 {
		return fmt.Sprintf("up to %d racks", racks)
	}
	return "two racks"
}

// between writes the numbers from first to last.
func between(first, last int) string {
	if first == last {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}
