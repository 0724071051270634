package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// mixedSite is two racks of four, five machines whose NVLink ends inside, one that
// is still registering, and two without GPUs.
func mixedSite() []topology.Facts {
	facts := site(2, 4)
	for n := range 5 {
		facts = append(facts, below(fmt.Sprintf("h%d", n+1)))
	}
	waiting := below("w1")
	waiting.Report.GPUs[0].Fabric.State = topology.FabricInProgress
	return append(facts, waiting, topology.Facts{Name: "c1", SlurmName: "c1"}, topology.Facts{Name: "c2", SlurmName: "c2"})
}

func TestPlanUnplaced(t *testing.T) {
	facts := mixedSite()
	for _, c := range []struct {
		policy placement.Policy
		want   []string
	}{
		{placement.Policy{ShortBlocks: true}, nil},
		{placement.Policy{ShortBlocks: true, OwnBlock: placement.UnplacedGPUs}, []string{"unplaced-1 h1,h2,h3,h4", "unplaced-2 h5"}},
		{placement.Policy{ShortBlocks: true, OwnBlock: placement.UnplacedAll}, []string{"unplaced-1 c1,c2,h1,h2", "unplaced-2 h3,h4,h5"}},
		{placement.Policy{OwnBlock: placement.UnplacedGPUs}, []string{"unplaced-1 h1,h2,h3,h4"}}, // 24.11 starts with no shorter block
	} {
		plan := mustPlan(t, facts, nil, c.policy)
		if diff := cmp.Diff(c.want, lines(plan)[3:], cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.policy, diff)
		}
		again := mustPlan(t, facts, fromFile(plan), c.policy)
		if diff := cmp.Diff(plan, again, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Clique" }, cmp.Ignore())); diff != "" {
			t.Errorf("%+v: another plan once it is published (-was +is):\n%s", c.policy, diff)
		}
	}
}

func TestPlanUnplacedStay(t *testing.T) {
	policy := placement.Policy{ShortBlocks: true, OwnBlock: placement.UnplacedAll}
	facts := mixedSite()
	plan := mustPlan(t, facts, nil, policy)
	prev := fromFile(plan)
	index := func(f []topology.Facts, name string) int {
		return slices.IndexFunc(f, func(f topology.Facts) bool { return f.Name == name })
	}
	change := func(do func(f []topology.Facts) []topology.Facts) *placement.Plan {
		return mustPlan(t, do(slices.Clone(facts)), prev, policy)
	}
	t.Run("a place that is free is filled", func(t *testing.T) {
		is := change(func(f []topology.Facts) []topology.Facts {
			f = slices.Delete(f, index(f, "h1"), index(f, "h1")+1)
			return append(f, below("a9"))
		})
		want := []string{"unplaced-1 a9,c1,c2,h2", "unplaced-2 h3,h4,h5"}
		if diff := cmp.Diff(want, lines(is)[3:]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("a report goes missing", func(t *testing.T) {
		is := change(func(f []topology.Facts) []topology.Facts { f[index(f, "h2")].Report = nil; return f })
		if diff := cmp.Diff(lines(plan), lines(is)); diff != "" {
			t.Errorf("(-was +is):\n%s", diff)
		}
	})
	t.Run("a node finds its place", func(t *testing.T) {
		is := change(func(f []topology.Facts) []topology.Facts {
			report := *f[0].Report
			f[index(f, "h2")].Report = &report
			return f
		})
		at := is.Placements[slices.IndexFunc(is.Placements, func(p placement.Placement) bool { return p.Node == "h2" })]
		if moved, _ := placement.Moved(prev, is); len(moved) > 0 || at.Block != is.Blocks[0].Name && at.Block != is.Blocks[1].Name {
			t.Errorf("%v moved, %+v: leaving such a block is no move", moved, at)
		}
	})
	t.Run("the policy goes", func(t *testing.T) {
		is := mustPlan(t, facts, prev, short)
		if diff := cmp.Diff([]string{"unplaced-1 ", "unplaced-2 "}, lines(is)[3:]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("no problem is named", func(t *testing.T) {
		for _, pr := range mustPlan(t, facts, prev, policy).Problems {
			t.Errorf("problem %v", pr)
		}
	})
}

func TestPlanUnplacedSwitch(t *testing.T) {
	facts := append(leafSite(), below("h1"), topology.Facts{Name: "c1", SlurmName: "c1"})
	for _, c := range []struct {
		which placement.Unplaced
		want  []string
	}{
		{placement.UnplacedNone, nil}, {placement.UnplacedGPUs, []string{"h1"}}, {placement.UnplacedAll, []string{"c1", "h1"}},
	} {
		policy := placement.Policy{ShortBlocks: true, OwnSwitch: c.which}
		plan := mustPlan(t, facts, nil, policy)
		for range 2 {
			at := slices.IndexFunc(plan.Switches, func(s placement.Switch) bool { return s.Name == "unplaced-nodes" })
			switch {
			case at < 0 && c.want != nil, at >= 0 && !slices.Equal(plan.Switches[at].Nodes, c.want), parentOf(plan, "unplaced-nodes") != "":
				t.Errorf("%v: switches %v", c.which, plan.Switches)
			}
			plan = mustPlan(t, facts, fromFile(plan), policy)
		}
		found := slices.Clone(facts)
		found[slices.IndexFunc(facts, func(f topology.Facts) bool { return f.Name == "h1" })] = below("h1", "leaf-2", "spine-1")
		is := mustPlan(t, found, fromFile(plan), policy)
		if moved, _ := placement.Moved(fromFile(plan), is); len(moved) > 0 {
			t.Errorf("%v: %v moved: a node that found its switch has not", c.which, moved)
		}
		for _, pl := range is.Placements {
			if pl.Node == "h1" && pl.Switch != "leaf-2" {
				t.Errorf("%v: %+v, want leaf-2", c.which, pl)
			}
		}
		for _, s := range mustPlan(t, facts, fromFile(plan), placement.Policy{ShortBlocks: true}).Switches {
			if s.Name == "unplaced-nodes" {
				t.Errorf("%v: the policy is gone, and %v is there", c.which, s)
			}
		}
	}
}
