package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// below returns the facts of a node below some switches.
func below(name string, tiers ...string) topology.Facts {
	return topology.Facts{Name: name, SlurmName: name, Report: &topology.Node{Name: name, GPUs: []topology.GPU{{UUID: "GPU-" + name,
		Fabric: topology.Fabric{State: topology.FabricNotSupported}}}}, Labels: topology.Labels{Tiers: tiers, GPUs: 1}}
}

// leaves are four nodes below each leaf. The switches above each leaf are given.
func leaves(above ...[]string) []topology.Facts {
	var out []topology.Facts
	for leaf, switches := range above {
		for n := range 4 {
			out = append(out, below(fmt.Sprintf("n%d%d", leaf+1, n+1), append([]string{fmt.Sprintf("leaf-%d", leaf+1)}, switches...)...))
		}
	}
	return out
}

// cut leaves of a node's tiers the nearest.
func cut(f *topology.Facts, n int) {
	f.Labels.Tiers = slices.Clone(f.Labels.Tiers[:min(n, len(f.Labels.Tiers))])
}

// parentOf returns the switch above another.
func parentOf(p *topology.Plan, child string) string {
	for _, s := range p.Switches() {
		if slices.Contains(s.Children, child) {
			return s.Name
		}
	}
	return ""
}

// TestTreeKeepsItsTiersAtRandom loses tiers of random nodes of random trees, with
// names that need care, and publishes again and again.
func TestTreeKeepsItsTiersAtRandom(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		spell := []func(tier, n int) string{
			func(tier, n int) string { return fmt.Sprintf("t%d-%d", tier, n) },
			func(_, n int) string { return fmt.Sprint("same", n) },
			func(tier, n int) string { return fmt.Sprintf("sw.%d/%d", tier, n) },
			func(tier, n int) string { return fmt.Sprintf("tier%d-same%d", 2-tier, n) },
		}
		var facts []topology.Facts
		for n := range 60 {
			leaf := n / 4
			f := below(fmt.Sprintf("n%02d", n), spell[leaf%4](0, leaf), spell[leaf/3%4](1, leaf/3), spell[leaf/6%4](2, leaf/6))
			cut(&f, 1+leaf/6)
			facts = append(facts, f)
		}
		want := mustPlan(t, facts, nil, short)
		plan := want
		for range 10 {
			now := slices.Clone(facts)
			for i := range now {
				if rng.IntN(3) > 0 {
					cut(&now[i], rng.IntN(4))
				}
			}
			rng.Shuffle(len(now), func(i, j int) { now[i], now[j] = now[j], now[i] })
			plan = mustPlan(t, now, fromFile(plan), short)
			if diff := cmp.Diff(want.Switches(), plan.Switches()); diff != "" {
				t.Fatalf("seed %d (-old +new):\n%s", seed, diff)
			}
		}
		if diff := cmp.Diff(want, mustPlan(t, facts, fromFile(plan), short)); diff != "" {
			t.Fatalf("seed %d: all labels are back (-old +new):\n%s", seed, diff)
		}
	}
}

// TestKeepsWhatIsInUse takes all nodes out of a leaf and of a block.
func TestKeepsWhatIsInUse(t *testing.T) {
	racked := func() []topology.Facts {
		return slices.Concat(underSpine("spine-1", 1), underSpine("spine-2", 2), underSpine("spine-3", 3))
	}
	old := mustPlan(t, racked(), nil, short)
	block := placeOf(old, 0).Block
	forget := forgets("leaf-1")
	forget.Forget = []string{block}
	noEmpty := forget
	noEmpty.EmptyLeaves = false
	facts := racked()
	for i := range facts[:2] {
		facts[i].Report.GPUs = facts[2].Report.GPUs
		confirm(&facts[i])
		facts[i].Labels.Tiers = []string{"leaf-2", "spine-2", "core"}
	}
	has := func(p *topology.Plan, unit string) bool {
		return slices.Contains(blockNames(p.Blocks()), unit) || slices.ContainsFunc(p.Switches(), func(s topology.Switch) bool { return s.Name == unit })
	}
	for name, tt := range map[string]struct {
		inUse  []string
		policy placement.Policy
		stay   []string
		named  []string // reasons of problems
	}{
		"nothing":                      {nil, forget, nil, nil},
		"all":                          {[]string{block, "leaf-1"}, forget, []string{block, "leaf-1", "spine-1"}, []string{"ForgottenInUse", "ForgottenInUse"}},
		"the leaf":                     {[]string{"leaf-1"}, forget, []string{"leaf-1", "spine-1"}, []string{"ForgottenInUse"}},
		"a spine, which no node is in": {[]string{"spine-1"}, forget, nil, nil},
		"what is not published":        {[]string{"leaf-9", "nvl-x"}, forget, nil, nil},
		"no empty leaf can be loaded":  {[]string{block, "leaf-1"}, noEmpty, []string{block}, []string{"ForgottenInUse"}},
	} {
		t.Run(name, func(t *testing.T) {
			prev := fromFile(old)
			prev.InUse = map[string]bool{}
			for _, unit := range tt.inUse {
				prev.InUse[unit] = true
			}
			current := mustPlan(t, facts, prev, tt.policy)
			for _, unit := range []string{block, "leaf-1", "spine-1"} {
				if got, want := has(current, unit), slices.Contains(tt.stay, unit); got != want {
					t.Errorf("%s stays: %t, want %t: %v", unit, got, want, lines(current))
				}
			}
			for _, unit := range tt.inUse {
				if has(current, unit) && !has(old, unit) {
					t.Errorf("%s was not published and is there", unit)
				}
			}
			if has(current, "leaf-1") && (parentOf(current, "leaf-1") != "spine-1" || parentOf(current, "spine-1") != "core") {
				t.Errorf("leaf-1 is not below its parents: %v", lines(current))
			}
			var named []string
			for _, p := range current.Problems {
				if strings.HasPrefix(p.Reason, "Forgotten") {
					named = append(named, p.Reason)
				}
			}
			if diff := cmp.Diff(tt.named, named); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			again := fromFile(current)
			again.InUse = prev.InUse
			if diff := cmp.Diff(lines(current), lines(mustPlan(t, facts, again, tt.policy))); diff != "" {
				t.Errorf("once more gives another plan (-want +got):\n%s", diff)
			}
			again.InUse = nil
			if last := mustPlan(t, facts, again, tt.policy); has(last, block) || has(last, "leaf-1") || has(last, "spine-1") {
				t.Errorf("it stays though nothing names it any more: %v", lines(last))
			}
			if back := mustPlan(t, racked(), fromFile(current), tt.policy); !has(back, block) || parentOf(back, "leaf-1") != "spine-1" {
				t.Errorf("it does not come back: %v", lines(back))
			}
		})
	}
}
