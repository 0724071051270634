package placement_test

import (
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

// TestPlanNamesSizes names what is wrong with the sizes of blocks, and only that.
func TestPlanNamesSizes(t *testing.T) {
	mixed := slices.Concat(rack(1, 6), rack(2, 6), rack(3, 3), rack(4, 3))
	for _, tt := range []struct {
		name   string
		facts  []topology.Facts
		policy placement.Policy
		want   []string
	}{
		{"equal racks", site(3, 4), short, nil},
		{"large and small racks", mixed, short, []string{placement.ReasonJobSizes + " 16-18"}},
		{"the base of the small racks", mixed, placement.Policy{BaseBlockSize: 3}, nil},
		{"and further sizes", mixed, placement.Policy{BaseBlockSize: 3, BlockSizes: []int{6}},
			[]string{placement.ReasonAboveBase + " 6", placement.ReasonAboveBase + " 6"}},
		{"the tree alone, and further sizes", mixed, placement.Policy{BaseBlockSize: 3, BlockSizes: []int{6}, TreeOnly: true}, []string{placement.ReasonSwitchesUnknown + " topology:"}},
		{"the tree alone", mixed, placement.Policy{TreeOnly: true}, []string{placement.ReasonSwitchesUnknown + " topology:"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			plan := mustPlan(t, tt.facts, nil, tt.policy)
			if n := len(plan.Topologies); n != 1 {
				t.Errorf("%d topologies: want no tree without a switch", n)
			}
			for _, p := range plan.Problems {
				sizes := strings.TrimPrefix(p.Message, "jobs of ")
				if _, has, ok := strings.Cut(p.Message, " has "); ok {
					sizes = has
				}
				got = append(got, p.Reason+" "+strings.Fields(sizes)[0])
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
