package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestPlanKnownBlocksStay lets nodes and racks come and go at random and checks
// that no published block ever moves or changes its name, nor the base size while its change is held.
func TestPlanKnownBlocksStay(t *testing.T) {
	all := site(10, 6)
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 7))
		plan := mustPlan(t, all[:24], nil, short)
		for range 15 {
			var facts []topology.Facts
			for _, f := range all {
				if rng.IntN(10) > 2 {
					facts = append(facts, f)
				}
			}
			held := short
			held.Waits = allWait
			next := mustPlan(t, facts, fromFile(plan), held)
			old, current := blockNames(plan.Blocks()), blockNames(next.Blocks())
			if !slices.Equal(old, slices.DeleteFunc(slices.Clone(current), func(n string) bool { return !slices.Contains(old, n) })) {
				t.Fatalf("seed %d: known blocks moved:\nwas %v\nis  %v", seed, old, current)
			}
			if next.BaseBlockSize() != plan.BaseBlockSize() {
				t.Fatalf("seed %d: base block size went from %d to %d", seed, plan.BaseBlockSize(), next.BaseBlockSize())
			}
			plan = next
		}
	}
}

// TestPlanForgets takes a block out only when none of its nodes could be in it.
func TestPlanForgets(t *testing.T) {
	facts := site(3, 4)
	plan := mustPlan(t, facts, nil, short)
	forget := short
	forget.Forget = []string{placeOf(plan, 4).Block}
	tests := map[string]struct {
		change func(*topology.Facts)
		stays  bool
	}{
		"living":         {func(*topology.Facts) {}, true},
		"power cycled":   {func(f *topology.Facts) { give(f, topology.Fabric{State: topology.FabricInProgress}) }, true},
		"no report":      {func(f *topology.Facts) { f.Report = nil }, true},
		"gone for now":   {func(f *topology.Facts) { f.Report, f.Gone = nil, true }, true},
		"another domain": {func(f *topology.Facts) { f.Report.GPUs = facts[0].Report.GPUs; confirm(f) }, false},
		"another domain, read once": {func(f *topology.Facts) {
			f.Report.GPUs, f.Report.Domain = facts[0].Report.GPUs, topology.NVLinkDomain{}
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			now := site(3, 4)
			for i := range now[4:8] {
				tt.change(&now[4+i])
			}
			got := mustPlan(t, now, fromFile(plan), forget)
			if has := slices.Contains(blockNames(got.Blocks()), forget.Forget[0]); has != tt.stays {
				t.Errorf("the block stays: %t, want %t: %v", has, tt.stays, lines(got))
			}
			want := fmt.Sprintf("[forgetBlocks names block %s, but the block has 4 nodes, such as r002n01: it stays]", forget.Forget[0])
			if said := fmt.Sprint(saidOf(got, placement.ReasonForgottenInUse)); said != want && tt.stays || said != "[]" && !tt.stays {
				t.Errorf("problems %v, want %s", got.Problems, want)
			}
		})
	}
	t.Run("all gone", func(t *testing.T) {
		if got := mustPlan(t, slices.Delete(slices.Clone(facts), 4, 8), fromFile(plan), forget); len(got.Blocks()) != 2 || len(got.Problems) > 0 {
			t.Errorf("%v, problems %v", lines(got), got.Problems)
		}
	})
}

// TestPlanLabelsAlone gives one node the label of another rack, of a clique or of a domain. The node moves only
// if labels are all that has ever been known. Otherwise the plan says which label would move it.
func TestPlanLabelsAlone(t *testing.T) {
	tests := map[string]struct {
		change func(facts []topology.Facts, prev *given)
		moves  bool
	}{
		"no agents": {func([]topology.Facts, *given) {}, true},
		"another node has a report": {func(facts []topology.Facts, _ *given) {
			facts[3].Report = site(1, 4)[3].Report
		}, false},
		"no report can be read": {func(facts []topology.Facts, _ *given) {
			for i := range facts {
				facts[i].ReportUnreadable = true
			}
		}, false},
		"one report, which cannot be read": {func(facts []topology.Facts, _ *given) {
			facts[6].ReportUnreadable = true
		}, false},
		"its report was deleted": {func(facts []topology.Facts, prev *given) {
			prev.Reported = map[string]bool{facts[0].SlurmName: true}
		}, false},
		"another's was, and it never had one": {func(facts []topology.Facts, prev *given) {
			prev.Reported = map[string]bool{facts[1].SlurmName: true}
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, facts := range [][]topology.Facts{byClique(2, 4), named(2, 4)} {
				prev := fromFile(mustPlan(t, facts, nil, short))
				facts[0].Labels = facts[7].Labels
				label := "r001n01: its label says " + facts[7].Labels.DomainText() + ","
				if len(facts[7].Labels.Domains) > 0 { // a label that no other node has names no domain of the site
					facts[0].Labels.Domains = slices.Concat([]topology.Domain{{Key: "other", Value: "o"}}, facts[7].Labels.Domains)
				}
				tt.change(facts, prev)
				current := mustPlan(t, facts, prev, short)
				if moved := placeOf(current, 0).Block == placeOf(current, 7).Block; moved != tt.moves || placeOf(current, 0).Block == "" {
					t.Errorf("moved: %t, want %t: %+v", moved, tt.moves, current.Nodes[0])
				}
				said := saidOf(current, topology.ReasonLabelDiffers)
				if named := len(said) == 1 && strings.HasPrefix(said[0], label); named == tt.moves {
					t.Errorf("moved: %t, and problems are %v, want %s", tt.moves, current.Problems, label)
				}
			}
		})
	}
}
