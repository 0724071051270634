package placement_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestSizesAreBounded takes the smallest and the largest size that Slurm takes.
func TestSizesAreBounded(t *testing.T) {
	for _, tt := range []struct {
		policy placement.Policy
		fits   bool
	}{
		{placement.Policy{BaseBlockSize: placement.MaxBlockSize}, true},
		{placement.Policy{BaseBlockSize: placement.MaxBlockSize + 1}, false},
		{placement.Policy{BaseBlockSize: -1}, false},
		{placement.Policy{SizeClasses: []int{placement.MaxBlockSize, 1}}, true},
		{placement.Policy{SizeClasses: []int{placement.MaxBlockSize + 1, 1}}, false},
		{placement.Policy{SizeClasses: []int{2, 0}}, false},
		{placement.Policy{SizeClasses: []int{2, 2}}, false},
		{placement.Policy{ParentBlocks: 2}, true},
		{placement.Policy{ParentBlocks: -2}, false},
		{placement.Policy{ParentBlocks: 1}, false},
		{placement.Policy{ParentBlocks: 3}, false},
		{placement.Policy{ParentBlocks: 6}, false},
		{placement.Policy{ParentBlocks: 1 << 16}, false},
		{placement.Policy{BaseBlockSize: 18, BlockSizes: []int{36, 144}}, true},
		{placement.Policy{BaseBlockSize: 18, BlockSizes: []int{35}}, false},
		{placement.Policy{BaseBlockSize: 18, BlockSizes: []int{72, 36}}, false},
		{placement.Policy{BaseBlockSize: 18, BlockSizes: []int{18 << 16}}, false},
		{placement.Policy{BaseBlockSize: 18, BlockSizes: []int{54}}, false},
	} {
		if _, _, err := makePlan(site(2, 2), nil, tt.policy); (err == nil) != tt.fits {
			t.Errorf("%+v: %v, want it taken: %t", tt.policy, err, tt.fits)
		}
	}
}

// like reports whether a text is as a pattern says. Three dots stand for any text.
func like(text, pattern string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\.\.\.`, ".*") + "$").MatchString(text)
}

// TestAdvice says what is wrong with the sizes of blocks, with racks of several sizes, with parents, and with several
// topologies, and what would help. It says no more than that.
func TestAdvice(t *testing.T) {
	mixed, whole, nines := inFabric("a", 1, 6, 6, 3, 3), inFabric("a", 1, 6, 6, 6, 6), inFabric("", 1, 9, 9, 9)
	grown, bySize := inFabric("", 1, 9, 9, 9, 18, 18), inFabric("", 1, 18, 18, 18, 9, 9, 9, 9)
	byFabric, three := slices.Concat(inFabric("a", 1, 4, 4), inFabric("b", 3, 4)), slices.Concat(underSpine("s1", 1, 2, 3), underSpine("s2", 4, 5))
	base := func(base int, further ...int) placement.Policy {
		return with(func(p *placement.Policy) { p.BaseBlockSize, p.BlockSizes = base, further })
	}
	one, tree := with(func(p *placement.Policy) { p.OneTopology = true }), with(func(p *placement.Policy) { p.TreeOnly = true })
	sizedTree, furtherTree, root := classes(18, 9), base(3, 6), with(func(p *placement.Policy) { p.RootSwitch = "core" })
	sizedTree.TreeOnly, furtherTree.TreeOnly = true, true
	const (
		impossible = "JobSizesImpossible: jobs of 16-18 nodes cannot run in topology nvl: Slurm gives a job of N nodes at most N/6 blocks, rounded up, and the largest blocks hold fewer nodes"
		smaller    = "; with baseBlockSize: 5 all can, and jobs of 6 nodes may use two racks; or the job asks for segments, such as sbatch -N 18 --segment=3"
		byClass    = "; sizeClasses: [6, 3] gives each size of rack a topology of its own"
		unknown    = "SwitchesUnknown: topology: tree publishes switches alone..."
		parents    = "ParentBlocks: 3 blocks are below switch core/s1, ... parentBlocks: 4 keeps such a job below one switch; jobs of 7-8 nodes cannot run then"
	)
	for _, tt := range []struct {
		name   string
		old    []topology.Facts // nil: nothing is published
		by     placement.Policy // of the published plan
		facts  []topology.Facts
		policy placement.Policy
		want   []string
	}{
		{"equal racks", nil, short, site(3, 4), short, nil},
		{"large and small racks", nil, short, mixed, short, []string{impossible + byClass + smaller}},
		{"large and small racks, published", mixed, short, mixed, divided, []string{impossible + byClass + smaller}},
		{"large and small racks in one topology", mixed, short, mixed, one, []string{impossible + smaller}},
		{"racks that lost nodes", whole, short, mixed, divided, []string{impossible + smaller}},
		{"the base of the small racks", nil, short, mixed, base(3), nil},
		{"the base of the small racks, and further sizes", nil, short, mixed, base(3, 6), nil},
		{"the tree alone", nil, short, site(3, 4), tree, []string{unknown}},
		{"the tree alone, and further sizes", nil, short, nines, furtherTree, []string{unknown}},
		{"larger racks come", nines, divided, grown, divided, []string{"SizeClassesUnset: topology nvl has racks of several sizes and base block size 9: jobs of 10-18 nodes may use two racks, although a large rack could hold them; " +
			"sizeClasses: [18, 9] gives each size of rack a topology of its own"}},
		{"larger racks come, and the base is set", nines, divided, grown, base(9), nil},
		{"larger racks come, and the classes are set", nines, divided, grown, classes(18, 9), []string{"TopologiesApart: ..."}},
		{"larger racks come into one topology", nines, divided, grown, one, nil},
		{"larger racks come beside the tree alone", nines, divided, grown, tree, []string{unknown}},
		{"larger racks, and nothing is published", nil, divided, grown, divided, []string{"JobSizesImpossible: jobs of 46-63 nodes ..."}},
		{"racks below two spines", nil, short, three, short, []string{parents}},
		{"racks below two spines, in an order that fits", underSpine("s1", 1, 2, 3), short, three, short, []string{parents}},
		{"racks below two spines, in an order that does not fit", slices.Concat(underSpine("s1", 1), underSpine("s2", 4)), short, slices.Concat(three, underSpine("s1", 6)), short,
			[]string{"ParentBlocks: 4 blocks ... parentBlocks: 4 keeps such a job below one switch, if the files are made from scratch: known blocks keep their places"}},
		{"one rack below each spine", nil, short, slices.Concat(underSpine("s1", 1), underSpine("s2", 2)), short, nil},
		{"one spine", nil, short, underSpine("s1", 1, 2), short, nil},
		{"no switch above racks", nil, short, site(4, 2), short, nil},
		{"parents are set", nil, short, slices.Concat(underSpine("s1", 1, 2, 3, 4), underSpine("s2", 5, 6)), inFours, nil},
		{"more racks than a parent has", nil, short, underSpine("s1", 1, 2, 3, 4, 5), inFours, []string{placement.ReasonParentBlocks + ": ..."}},
		{"parents are set, and no switch is known", nil, short, site(4, 2), inFours, []string{placement.ReasonParentBlocks + ": ..."}},
		{"parents are set afterwards", slices.Concat(underSpine("s1", 1, 2), underSpine("s2", 3)), short, slices.Concat(underSpine("s1", 1, 2), underSpine("s2", 3), underSpine("s1", 4), underSpine("s2", 5)), inFours, []string{"JobSizesImpossible: ...", "ParentBlocks: ..."}},
		{"further sizes below two spines", nil, short, slices.Concat(underSpine("s1", 1, 2), underSpine("s2", 3, 4)), base(0, 4), nil},
		{"the tree alone, with two spines", nil, short, three, tree, nil},
		{"topologies by size", nil, short, bySize, classes(18, 9), []string{"TopologiesApart: no job that Slurm places by blocks runs across nvl-18 (54 nodes) and nvl-9 (36 nodes): baseBlockSize: 9, without sizeClasses, puts racks of all sizes into one topology"}},
		{"topologies by size, and the base joins them", bySize, classes(18, 9), bySize, base(9), nil},
		{"topologies by size beside the tree alone", nil, short, bySize, sizedTree, []string{unknown}},
		{"topologies by fabric", nil, short, byFabric, divided, []string{"LeavesApart: ...", "TopologiesApart: no job that Slurm places by blocks runs across nvl-a (8 nodes) and nvl-b (4 nodes): rootSwitch joins fabrics, if one switch is above them"}},
		{"topologies by fabric, and a root joins them", byFabric, divided, byFabric, root, []string{"ParentBlocks: 2 blocks ..."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var prev *given
			if tt.old != nil {
				prev = previous(mustPlan(t, tt.old, nil, tt.by))
			}
			plan := mustPlan(t, tt.facts, prev, tt.policy)
			if !slices.EqualFunc(plan.Problems, tt.want, func(p topology.Finding, want string) bool { return like(p.String(), want) }) {
				t.Errorf("problems (-want +got):\n%s", cmp.Diff(strings.Join(tt.want, "\n"), fmt.Sprint(plan.Problems)))
			}
			if n := len(plan.BlockTopologies()); n > 1 != strings.Contains(fmt.Sprint(tt.want), "TopologiesApart") && !tt.policy.TreeOnly {
				t.Errorf("%d block topologies", n)
			}
		})
	}
}
