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

// fabric is six leaves below three spines, two of them below one core, with
// four nodes each.
func fabric() []topology.Facts {
	return leaves([]string{"spine-1", "core-1"}, []string{"spine-1", "core-1"}, []string{"spine-2", "core-1"}, []string{"spine-2", "core-1"}, []string{"spine-3"}, []string{"spine-3"})
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

func TestTreeKeepsItsTiers(t *testing.T) {
	want := mustPlan(t, fabric(), nil, short)
	for name, change := range map[string]func(i int, f *topology.Facts){
		"core lost":               func(_ int, f *topology.Facts) { cut(f, 2) },
		"spine and core lost":     func(_ int, f *topology.Facts) { cut(f, 1) },
		"all lost":                func(_ int, f *topology.Facts) { cut(f, 0) },
		"spine lost in the midst": func(_ int, f *topology.Facts) { f.Labels.Tiers[1] = "" },
		"leaf lost":               func(_ int, f *topology.Facts) { f.Labels.Tiers[0] = "" },
		"all but one lost": func(i int, f *topology.Facts) {
			if i != 9 {
				cut(f, i%3)
			}
		},
		"all gone": func(_ int, f *topology.Facts) {
			*f = topology.Facts{Name: f.Name, SlurmName: f.SlurmName, Gone: true}
		},
		"one wrong, all others lost": func(i int, f *topology.Facts) {
			if cut(f, 1); i == 0 {
				f.Labels.Tiers = []string{"leaf-1", "spine-2", "core-2"}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts := fabric()
			for i := range facts {
				change(i, &facts[i])
			}
			plan := want
			for range 3 {
				plan = mustPlan(t, facts, fromFile(plan), short)
				if diff := cmp.Diff(want.Switches(), plan.Switches()); diff != "" {
					t.Fatalf("(-old +new):\n%s", diff)
				}
			}
		})
	}
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

func TestTreeFollowsItsNodes(t *testing.T) {
	old := mustPlan(t, fabric(), nil, short)
	tests := []struct {
		name        string
		policy      placement.Policy
		change      func(i int, f *topology.Facts)
		child, want string
		gone        string // switches that are to go
	}{
		{"a leaf below another spine", short, func(i int, f *topology.Facts) {
			if i < 4 {
				f.Labels.Tiers[1] = "spine-2"
			}
		}, "leaf-1", "spine-2", ""},
		{"as most of its nodes say", short, func(i int, f *topology.Facts) {
			if i < 3 {
				f.Labels.Tiers[1] = "spine-2"
			} else {
				cut(f, 1)
			}
		}, "leaf-1", "spine-2", ""},
		{"half of them do not suffice", short, func(i int, f *topology.Facts) {
			if i < 2 {
				f.Labels.Tiers[1] = "a-spine"
			} else {
				cut(f, 1)
			}
		}, "leaf-1", "spine-1", ""},
		{"a spine below another core", short, func(i int, f *topology.Facts) {
			if i < 8 {
				f.Labels.Tiers[2] = "core-2"
			}
		}, "spine-1", "core-2", ""},
		{"a first core", short, func(i int, f *topology.Facts) {
			if i >= 16 {
				f.Labels.Tiers = append(f.Labels.Tiers, "core-1")
			}
		}, "spine-3", "core-1", ""},
		{"a spine renamed", short, func(i int, f *topology.Facts) {
			if i < 8 {
				f.Labels.Tiers[1] = "spine-9"
			}
		}, "leaf-2", "spine-9", "spine-1"},
		{"the spines taken out", short, func(i int, f *topology.Facts) {
			if i < 16 {
				f.Labels.Tiers = []string{f.Labels.Tiers[0], "core-1"}
			}
		}, "leaf-2", "core-1", "spine-1 spine-2"},
		{"the site has one tier fewer", placement.Policy{Tiers: 2}, func(_ int, f *topology.Facts) { cut(f, 2) },
			"spine-1", "fabric", "core-1"},
		{"the site has two tiers fewer, and says so with silent nodes", placement.Policy{Tiers: 1}, func(_ int, f *topology.Facts) { cut(f, 0) },
			"leaf-1", "fabric", "spine-1 spine-2 spine-3 core-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			facts := fabric()
			for i := range facts {
				tt.change(i, &facts[i])
			}
			current := mustPlan(t, facts, fromFile(old), tt.policy)
			if got := parentOf(current, tt.child); got != tt.want {
				t.Errorf("%s is below %q, want %q: %v", tt.child, got, tt.want, lines(current))
			}
			for _, s := range current.Switches() {
				if slices.Contains(strings.Fields(tt.gone), s.Name) {
					t.Errorf("switch %s stays: %v", s.Name, lines(current))
				}
			}
			if diff := cmp.Diff(current.Switches(), mustPlan(t, facts, fromFile(current), tt.policy).Switches()); diff != "" {
				t.Errorf("once more gives another tree (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeepsUnitsInUse takes all nodes out of a leaf and of a block.
func TestKeepsUnitsInUse(t *testing.T) {
	racked := func() []topology.Facts {
		return slices.Concat(unit("spine-1", 1), unit("spine-2", 2), unit("spine-3", 3))
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
		"all":                          {[]string{block, "leaf-1"}, forget, []string{block, "leaf-1", "spine-1"}, []string{"ForgottenBlockInUse", "ForgottenSwitchInUse"}},
		"the leaf":                     {[]string{"leaf-1"}, forget, []string{"leaf-1", "spine-1"}, []string{"ForgottenSwitchInUse"}},
		"a spine, which no node is in": {[]string{"spine-1"}, forget, nil, nil},
		"what is not published":        {[]string{"leaf-9", "nvl-x"}, forget, nil, nil},
		"no empty leaf can be loaded":  {[]string{block, "leaf-1"}, noEmpty, []string{block}, []string{"ForgottenBlockInUse"}},
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

func BenchmarkReplanTree10008(b *testing.B) {
	facts := site(556, 18)
	for i := range facts {
		facts[i].Labels.Tiers = []string{fmt.Sprint("leaf-", i/18), fmt.Sprint("spine-", i/180), fmt.Sprint("core-", i/1800)}
	}
	prev := fromFile(mustPlan(b, facts, nil, short))
	for i := range facts {
		cut(&facts[i], i%4)
	}
	for b.Loop() {
		mustPlan(b, facts, prev, short)
	}
	b.ReportAllocs()
}
