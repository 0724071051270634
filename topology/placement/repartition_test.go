package placement_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// repartition gives the node's GPUs another clique of a rack's cluster while the node runs.
func repartition(f *topology.Facts, rack int, id uint32) {
	give(f, inClique(rack, id))
	confirm(f)
	f.Report.DomainChanged = true
}

// lookAtAll is a Policy.LookFirst of people who decide about all changes of NVLink partitions.
func lookAtAll(*placement.Repartition, []*placement.Repartition) string { return "all wait" }

// TestPartitionsAtRandom divides and joins racks at random, again and again. Each clique is one block then. The
// largest part of a divided block keeps the block, of equals the lower clique. The other racks do not
// change, and the plan is the same when it is published. While a change is held, nothing moves.
func TestPartitionsAtRandom(t *testing.T) {
	const racks, trays = 4, 8
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		facts := site(racks, trays)
		old := mustPlan(t, facts, nil, short)
		for range 4 {
			changes := map[int]bool{}
			before := slices.Clone(facts)
			for r := range racks {
				if rng.IntN(2) == 0 {
					continue
				}
				changes[r] = true
				parts, first := 1+rng.IntN(3), uint32(1+rng.IntN(40))
				for i := r * trays; i < (r+1)*trays; i++ {
					repartition(&facts[i], r+1, first+uint32(rng.IntN(parts)))
				}
			}
			plan, _, err := makePlan(facts, previous(old), short)
			if err != nil {
				t.Fatal(err)
			}
			held := placement.Policy{Waits: func(d placement.Decision) bool { return d.Kind == placement.Repartitioned }, LookFirst: lookAtAll}
			from, kept, to := old.Places(), mustPlan(t, facts, previous(old), held).Places(), plan.Places()
			for n := range from { // a tray that was alone in its clique has no block, and may join one
				if kept[n] != from[n] {
					t.Fatalf("seed %d: held, and %s is in %v, and was in %v", seed, n, kept[n], from[n])
				}
			}
			parts := map[string]map[topology.Clique]int{} // by old block
			is := map[topology.Clique]string{}            // new block
			for i := range facts {
				n, clique := facts[i].SlurmName, facts[i].Report.Domain.Clique
				if block := from[n].Block; block != "" {
					if parts[block] == nil {
						parts[block] = map[topology.Clique]int{}
					}
					parts[block][clique]++
				}
				block, known := is[clique]
				if is[clique] = to[n].Block; known && block != to[n].Block {
					t.Fatalf("seed %d: clique %s is in blocks %q and %q", seed, clique, block, to[n].Block)
				}
				if !changes[i/trays] && from[n] != to[n] {
					t.Fatalf("seed %d: %s is in %v, and was in %v", seed, n, to[n], from[n])
				}
			}
			for _, b := range old.Blocks() {
				best, count, joins := topology.Clique{}, 0, false
				for clique, n := range parts[b.Name] {
					if n > count || n == count && clique.Compare(best) < 0 {
						best, count = clique, n
					}
					for _, other := range old.Blocks() {
						joins = joins || other.Name != b.Name && other.Clique == clique
					}
					for name, others := range parts {
						joins = joins || name != b.Name && others[clique] > 0
					}
				}
				if count > 1 && !joins && is[best] != b.Name {
					t.Fatalf("seed %d: block %s had most nodes of clique %s, which is block %q now", seed, b.Name, best, is[best])
				}
			}
			if again := mustPlan(t, facts, previous(plan), short); !cmp.Equal(lines(plan), lines(again)) {
				t.Fatalf("seed %d: not the same when published:\n%s", seed, cmp.Diff(lines(plan), lines(again)))
			}
			if rng.IntN(3) == 0 { // they are put back, or nobody approves
				facts = before
				continue
			}
			old = plan
		}
	}
}

// TestRepartitionSays has the decision on a divided rack name blocks and cliques and no nodes, and its text
// the first nodes.
func TestRepartitionSays(t *testing.T) {
	facts := site(2, 6)
	old := mustPlan(t, facts, nil, short)
	for i := range 2 {
		repartition(&facts[i], 1, 7)
	}
	_, found, err := makePlan(facts, previous(old), short)
	if err != nil || len(found.Follows) != 1 {
		t.Fatal(found.Follows, err)
	}
	r := &found.Follows[0]
	d := r.Decision()
	divided := topology.Clique{ClusterUUID: clusterUUID(1), ID: 7}
	if want := (placement.Decision{Kind: placement.Repartitioned, Subject: old.Places()["r001n01"].Block, From: cliqueOf(1).String(), To: cliqueOf(1).String() + ", " + divided.String()}); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
	if diff := cmp.Diff([]string{"r001n01", "r001n02"}, r.Moves()); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	asked := short
	asked.Waits, asked.LookFirst = allWait, lookAtAll
	if _, found, err := makePlan(facts, previous(old), asked); err != nil || len(found.Held) != 2 || !found.Held["r001n01"] {
		t.Errorf("while it waits, held nodes %v, %v", found.Held, err)
	}
	if text := r.String(); !strings.Contains(text, "2 nodes (r001n01, r001n02) of block") || !strings.Contains(text, "4 nodes (r001n03, r001n04, r001n05, ...)") {
		t.Error(text)
	}
	fewer := slices.DeleteFunc(slices.Clone(facts), func(f topology.Facts) bool { return f.Name == "r001n02" })
	if _, found, err := makePlan(fewer, previous(old), short); err != nil || len(found.Follows) != 1 || found.Follows[0].Decision() != d {
		t.Errorf("a node is gone: %+v, %v", found.Follows, err)
	}
	waits := previous(old)
	waits.Settling = &placement.Settling{Unsettled: map[string]bool{"r001n02": true}}
	if plan, waiting, err := makePlan(facts, waits, short); err != nil || len(waiting.Follows) > 0 || !cmp.Equal(lines(old), lines(plan)) ||
		!cmp.Equal(waiting.Stay, waiting.Moving) || len(waiting.Moving) != 2 {
		t.Errorf("a node has not said so for long enough: %v, %v, %v", lines(plan), waiting, err)
	}
	for i := range facts { // the first rack is divided and becomes one with the second: one change
		repartition(&facts[i], 2, uint32(2+i/3%2))
	}
	_, found, err = makePlan(facts, previous(old), short)
	if err != nil || len(found.Follows) != 1 || !strings.Contains(found.Follows[0].Decision().Subject, ", ") {
		t.Errorf("two racks become one: %+v, %v", found.Follows, err)
	}
}
