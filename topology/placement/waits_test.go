package placement_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestWaits moves nodes that wait, and nodes that need not, in one plan. What the caller
// gave is as before.
func TestWaits(t *testing.T) {
	const waits, moves, gone = "r001n01", "r001n02", "r001n03"
	facts := slices.Concat(underSpine("s1", 1, 2), underSpine("s2", 3))
	facts = append(facts, rack(1, 3)[2], rack(1, 4)[3])
	prev := previous(mustPlan(t, facts, nil, inFours))
	for i := range facts {
		switch facts[i].Name {
		case gone:
			facts[i].Gone = true
			fallthrough
		case waits, moves:
			reads(&facts[i], 2)
			confirm(&facts[i])
		}
	}
	unsited := rack(7, 2)
	facts = append(facts, unsited...)
	set := func(names ...string) map[string]bool {
		all := map[string]bool{}
		for _, n := range names {
			all[n] = true
		}
		return all
	}
	new1, new2 := unsited[0].Name, unsited[1].Name
	for name, tt := range map[string]struct {
		waits *placement.Settling
		stay  map[string]bool
		// moved and placed say what becomes of the node that waits and of the new block.
		moved, placed bool
	}{
		"nobody waits":                        {nil, nil, true, true},
		"no reason to wait":                   {&placement.Settling{Waited: set(new1)}, set(), true, true},
		"one is not settled":                  {&placement.Settling{Unsettled: set(waits), Waited: set(new1, new2)}, set(waits), false, true},
		"one of those that stay anyway":       {&placement.Settling{Unsettled: set(gone, "r003n01"), Waited: set(new2)}, set(), true, true},
		"a new block waits":                   {&placement.Settling{}, set(new1, new2), true, false},
		"both":                                {&placement.Settling{Unsettled: set(waits)}, set(new1, new2, waits), false, false},
		"a node of the block has waited":      {&placement.Settling{Waited: set(new2)}, set(), true, true},
		"a node of another block has waited":  {&placement.Settling{Waited: set("r003n01")}, set(new1, new2), true, false},
		"both, and the block waits no longer": {&placement.Settling{Waited: set(new1), Unsettled: set(waits)}, set(waits), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(facts)
			with := *prev
			with.Settling = tt.waits
			plan, waiting, err := makePlan(facts, &with, inFours)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, facts, cmp.AllowUnexported(topology.Facts{})); diff != "" {
				t.Errorf("the facts have changed (-before +after):\n%s", diff)
			}
			block1, block2 := prev.Places()[waits].Block, prev.Places()["r002n01"].Block
			want := map[string]string{moves: block2, gone: block1, waits: block1, new1: "", "r003n01": prev.Places()["r003n01"].Block}
			if tt.moved {
				want[waits] = block2
			}
			got := map[string]string{}
			for n := range want {
				got[n] = blockOf(plan, n)
			}
			if tt.placed {
				delete(want, new1)
				if got[new1] == "" {
					t.Errorf("%s has no place", new1)
				}
				delete(got, new1)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("blocks (-want +got):\n%s", diff)
			}
			if tt.waits == nil {
				return
			}
			if diff := cmp.Diff([][]string{{new1, new2}}, waiting.Unsited); diff != "" {
				t.Errorf("new blocks without a known switch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.stay, waiting.Stay); diff != "" {
				t.Errorf("nodes that wait (-want +got):\n%s", diff)
			}
			if moving := slices.Sorted(maps.Keys(waiting.Moving)); fmt.Sprint(moving) != fmt.Sprint([]string{waits, moves}) {
				t.Errorf("moving: %v", moving)
			}
			for _, pl := range plan.Nodes {
				if tt.stay[pl.SlurmName] && !strings.Contains(pl.Message, "its facts name another place, but") && !strings.Contains(pl.Message, "its block is new, and") {
					t.Errorf("%s waits, and the plan says %s: %q", pl.SlurmName, pl.Reason, pl.Message)
				}
			}
		})
	}
}
