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

// sources are writers of labels whose values mean something else: their own switches at each tier,
// unique values, and fabrics.
var sources = []topology.TierSource{{}, {Rank: 3, Name: "unique", Unique: true}, {Rank: 4, Name: "fabrics", Fabrics: true}}

// randomLabels returns nodes with any labels: values are repeated, missing and contradict each other.
func randomLabels(rng *rand.Rand) []topology.Facts {
	var facts []topology.Facts
	source, values := sources[rng.IntN(len(sources))], 1+rng.IntN(6)
	for n := range 1 + rng.IntN(24) {
		f := below(fmt.Sprintf("n%02d", n))
		for range rng.IntN(5) {
			value := ""
			if rng.IntN(6) > 0 {
				value = fmt.Sprint("s", rng.IntN(values))
			}
			f.Labels.Tiers = append(f.Labels.Tiers, value)
		}
		for n := len(f.Labels.Tiers); n > 0 && f.Labels.Tiers[n-1] == ""; n-- {
			f.Labels.Tiers = f.Labels.Tiers[:n-1]
		}
		f.Labels.TierSource, f.Report.GPUs[0].Product = source, []string{"", "H100", "H100", "L40S"}[rng.IntN(4)]
		facts = append(facts, f)
	}
	return facts
}

// wantTree wants a tree that Slurm can use: each node in at most one leaf, no loops, and one root
// with nodes below it, unless a finding says why there are several.
func wantTree(t *testing.T, facts []topology.Facts, plan *topology.Plan) {
	t.Helper()
	leaf, above := map[string]string{}, map[string]string{}
	known := map[string]bool{}
	for _, s := range plan.Switches() {
		if known[s.Name] || topology.SlurmName(s.Name) != s.Name || len(s.Nodes) > 0 && len(s.Children) > 0 {
			t.Errorf("switch %+v", s)
		}
		for _, c := range s.Children {
			if above[c] != "" || !known[c] {
				t.Errorf("switch %s is below %s, and below %q or after it", c, s.Name, above[c])
			}
			above[c] = s.Name
		}
		for _, n := range s.Nodes {
			if leaf[n] != "" {
				t.Errorf("node %s is in %s and %s", n, leaf[n], s.Name)
			}
			leaf[n] = s.Name
		}
		known[s.Name] = true
	}
	roots := map[string]bool{}
	for _, at := range leaf {
		for above[at] != "" { // every switch comes after its children, so there is no loop
			at = above[at]
		}
		roots[at] = true
	}
	if apart := saidOf(plan, placement.ReasonLeavesApart); (len(roots) > 1) != (len(apart) == 1) {
		t.Errorf("%d roots, and findings %v", len(roots), apart)
	}
	for i := range facts {
		if f := &facts[i]; (leaf[f.SlurmName] != "") != (len(f.Labels.Tiers) > 0) {
			t.Errorf("node %s names %q and is in leaf %q", f.Name, f.Labels.Tiers, leaf[f.SlurmName])
		}
	}
}

// TestAnyLabelsMakeATree reads random labels, in random orders of nodes, and publishes again and again.
func TestAnyLabelsMakeATree(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 35))
		facts := randomLabels(rng)
		plan := mustPlan(t, facts, nil, short)
		wantTree(t, facts, plan)
		shuffled := slices.Clone(facts)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(plan, mustPlan(t, shuffled, nil, short)); diff != "" {
			t.Errorf("another order of nodes (-want +got):\n%s", diff)
		}
		again := mustPlan(t, shuffled, previous(plan), short)
		own := !facts[0].Labels.TierSource.Unique // one value may be several switches at tiers that nodes leave out
		for n := 0; own && n < 4; n++ {
			plan, again = again, mustPlan(t, shuffled, previous(again), short)
		}
		if diff := cmp.Diff(plan.Switches(), again.Switches()); diff != "" {
			t.Errorf("once more gives another tree (-want +got):\n%s", diff)
		}
		if t.Failed() {
			for _, f := range facts {
				t.Logf("%s %q %+v", f.Name, f.Labels.Tiers, f.Report.GPUs[0].Product)
			}
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestOneBadNodeCostsItself gives one node of a published site any labels of the site: no other node
// moves.
func TestOneBadNodeCostsItself(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 36))
		var facts []topology.Facts
		source := sources[rng.IntN(2)]
		for n := range 36 {
			leaf := n / 4
			f := below(fmt.Sprintf("n%02d", n), fmt.Sprint("leaf", leaf), fmt.Sprint("spine", leaf/2), fmt.Sprint("core", leaf/4))
			if leaf%4 == 3 { // it is nearer to the top
				f.Labels.Tiers = slices.Delete(f.Labels.Tiers, 1, 2)
			}
			f.Labels.TierSource = source
			facts = append(facts, f)
		}
		old := mustPlan(t, facts, nil, short)
		bad := &facts[rng.IntN(len(facts))]
		all := []string{"", "leaf0", "leaf1", "leaf7", "spine0", "spine1", "spine3", "core0", "core1", "core2", "fabric", "x"}
		bad.Labels.Tiers = nil
		for range 1 + rng.IntN(4) {
			bad.Labels.Tiers = append(bad.Labels.Tiers, all[rng.IntN(len(all))])
		}
		if strings.Join(bad.Labels.Tiers, "") == "" {
			bad.Labels.Tiers = nil
		}
		plan := mustPlan(t, facts, previous(old), short)
		moved := placement.Moved(old, plan)
		if len(moved) > 1 || len(moved) == 1 && moved[0] != bad.SlurmName {
			t.Fatalf("seed %d: node %s names %q, and these move: %v\nold %v\nnew %v", seed, bad.Name, bad.Labels.Tiers, moved, lines(old), lines(plan))
		}
	}
}
