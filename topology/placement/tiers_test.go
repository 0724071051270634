package placement_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestTierSources lets two sources name the switches of some of eight nodes.
func TestTierSources(t *testing.T) {
	one, two := topology.TierSource{Rank: 1, Name: "one"}, topology.TierSource{Rank: 2, Name: "two"}
	site := func(byOne, byTwo func(i int) bool) []topology.Facts {
		var out []topology.Facts
		for i := range 8 {
			f := below(fmt.Sprintf("n%d", i))
			l := &f.Labels
			if byOne(i) {
				l.Tiers, l.TierSource = []string{fmt.Sprint("a", i/4)}, one
			}
			if tiers := []string{fmt.Sprint("b", i/4)}; byTwo(i) && l.Tiers != nil {
				l.MoreTiers = []topology.SourceTiers{{TierSource: two, Tiers: tiers}}
			} else if byTwo(i) {
				l.Tiers, l.TierSource = tiers, two
			}
			out = append(out, f)
		}
		return out
	}
	first := func(n int) func(int) bool { return func(i int) bool { return i < n } }
	last := func(n int) func(int) bool { return func(i int) bool { return i >= 8-n } }
	for name, tt := range map[string]struct {
		facts   []topology.Facts
		want    []string
		missing int
	}{
		"both on all":             {site(first(8), first(8)), []string{"a0", "a1", "fabric"}, 0},
		"the first on most":       {site(first(5), first(8)), []string{"a0", "a1", "fabric"}, 3},
		"the first on few":        {site(first(2), first(8)), []string{"b0", "b1", "fabric"}, 0},
		"half and half":           {site(first(4), last(4)), []string{"a0"}, 4},
		"three and five":          {site(first(3), last(5)), []string{"b0", "b1", "fabric"}, 3},
		"one source, on few":      {site(first(2), first(0)), []string{"a0"}, 6},
		"the second alone on all": {site(first(0), first(8)), []string{"b0", "b1", "fabric"}, 0},
	} {
		plan := mustPlan(t, tt.facts, nil, short)
		var got []string
		for _, s := range plan.Switches() {
			got = append(got, s.Name)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: switches (-want +got):\n%s", name, diff)
		}
		if got := len(problemsOf(plan, placement.ReasonNoSwitch)); got != tt.missing {
			t.Errorf("%s: %d nodes named, want %d: %v", name, got, tt.missing, plan.Problems)
		}
	}
	t.Run("the published source stays", func(t *testing.T) {
		old := mustPlan(t, site(first(2), first(8)), nil, short)
		current := mustPlan(t, site(first(8), first(6)), fromFile(old), short)
		if diff := cmp.Diff(old.Switches(), current.Switches()); diff != "" {
			t.Errorf("(-old +new):\n%s", diff)
		}
	})
	t.Run("reports go before labels", func(t *testing.T) {
		facts := site(first(8), first(8))
		facts[0].Report.Tiers = []string{"reported"}
		if plan := mustPlan(t, facts, nil, short); placeOf(plan, 0).Leaf != "reported" || placeOf(plan, 1).Leaf != "a0" {
			t.Errorf("%v", plan.Nodes[:2])
		}
	})
}
