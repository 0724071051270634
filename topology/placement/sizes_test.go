package placement_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

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
		{"the base of the small racks", mixed, placement.Policy{ShortBlocks: true, BaseBlockSize: 3}, nil},
		{"and further sizes", mixed, placement.Policy{ShortBlocks: true, BaseBlockSize: 3, BlockSizes: []int{6}},
			[]string{placement.ReasonAboveBase + " 6", placement.ReasonAboveBase + " 6"}},
		{"the tree alone", mixed, placement.Policy{ShortBlocks: true, TreeOnly: true}, nil},
		{"an old release", mixed, placement.Policy{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range mustPlan(t, tt.facts, nil, tt.policy).Problems {
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
