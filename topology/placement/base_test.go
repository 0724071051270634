package placement_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

func TestPlanBaseBlockSize(t *testing.T) {
	facts := slices.Concat(rack(1, 18), rack(2, 17), rack(3, 18))
	tests := []struct {
		name   string
		policy placement.Policy
		want   []int
		blocks int
	}{
		{"largest where short blocks are taken", short, []int{18}, 3},
		{"smallest where they are fatal", placement.Policy{}, []int{17}, 3},
		{"configured, and further sizes", placement.Policy{ShortBlocks: true, BaseBlockSize: 18, BlockSizes: []int{36, 144}}, []int{18, 36, 144}, 3},
		{"configured, and a short block left out", placement.Policy{BaseBlockSize: 18}, []int{18}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := mustPlan(t, facts, nil, tt.policy)
			if diff := cmp.Diff(tt.want, sizesOf(plan)); diff != "" || len(plan.Blocks()) != tt.blocks {
				t.Errorf("%d blocks, want %d; sizes (-want +got):\n%s", len(plan.Blocks()), tt.blocks, diff)
			}
		})
	}
	for _, sizes := range [][]int{{35}, {72, 36}, {18 << 16}, {54}} {
		if _, _, err := makePlan(facts, nil, placement.Policy{ShortBlocks: true, BaseBlockSize: 18, BlockSizes: sizes}); err == nil {
			t.Errorf("block sizes %v on base 18 were taken", sizes)
		}
	}
}

// TestPlanStragglers publishes racks for 24.11 while one of them is not up: it sets
// no base, is left out by name, and joins when it is whole.
func TestPlanStragglers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		racks []int
		base  int
		out   int // nodes that are left out
	}{
		{"one node of the last rack is missing", []int{18, 18, 17}, 17, 0},
		{"one rack is hardly up", []int{18, 18, 18, 2}, 18, 2},
		{"one of two racks is hardly up", []int{18, 2}, 18, 2},
		{"half racks", []int{18, 18, 18, 9}, 9, 0},
		{"most racks are small", []int{4, 4, 4, 18}, 4, 0},
		{"one rack alone", []int{2}, 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var facts, whole []topology.Facts
			for i, n := range tt.racks {
				facts, whole = append(facts, rack(i+1, n)...), append(whole, rack(i+1, max(n, tt.base))...)
			}
			plan := mustPlan(t, facts, nil, placement.Policy{})
			out := 0
			for _, p := range plan.Nodes {
				if p.Reason == placement.ReasonBelowBase {
					out++
				}
			}
			if plan.BaseBlockSize() != tt.base || out != tt.out {
				t.Errorf("base %d and %d nodes left out, want %d and %d", plan.BaseBlockSize(), out, tt.base, tt.out)
			}
			if after := mustPlan(t, whole, fromFile(plan), placement.Policy{}); len(after.Blocks()) != len(tt.racks) || after.BaseBlockSize() != tt.base {
				t.Errorf("%d blocks of base %d once all are up", len(after.Blocks()), after.BaseBlockSize())
			}
		})
	}
}

// TestPlanOldRelease checks that a lost node never makes a block that Slurm
// 24.11 would not start with.
func TestPlanOldRelease(t *testing.T) {
	facts := site(2, 4)
	plan := mustPlan(t, facts, nil, placement.Policy{})
	after := mustPlan(t, facts[1:], fromFile(plan), placement.Policy{})
	if diff := cmp.Diff(lines(plan), lines(after)); diff != "" {
		t.Errorf("a lost node changed the plan (-old +new):\n%s", diff)
	}
	if len(after.Problems) != 1 || after.Problems[0].Reason != placement.ReasonKeptGone {
		t.Errorf("problems %v, want one %s", after.Problems, placement.ReasonKeptGone)
	}
}
