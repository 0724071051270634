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

// underSpine returns racks below one spine.
func underSpine(spine string, numbers ...int) []topology.Facts {
	var out []topology.Facts
	for _, n := range numbers {
		out = append(out, rack(n, 2, func(_ int, f *topology.Facts) {
			f.Labels.Tiers = []string{fmt.Sprintf("leaf-%d", n), spine, "core"}
		})...)
	}
	return out
}

var inFours = placement.Policy{EmptyLeaves: true, ParentBlocks: 4}

// spines are the parents of the blocks in their order, - for a free place.
func spines(p *topology.Plan, facts []topology.Facts) string {
	of := map[string]string{}
	for i := range facts {
		of[facts[i].SlurmName] = facts[i].Labels.Tiers[1]
	}
	var out []string
	for _, b := range p.Blocks() {
		if len(b.Nodes) == 0 {
			out = append(out, "-")
			continue
		}
		out = append(out, of[b.Nodes[0]])
	}
	return strings.Join(out, " ")
}

func TestPlanParents(t *testing.T) {
	facts := slices.Concat(underSpine("s2", 4, 5), underSpine("s1", 1, 2, 3), underSpine("s3", 6))
	plan := mustPlan(t, facts, nil, inFours)
	if got := spines(plan, facts); got != "s1 s1 s1 - s2 s2 - - s3 - - -" || fmt.Sprint(sizesOf(plan)) != "[2 8]" {
		t.Fatalf("%s, sizes %v", got, sizesOf(plan))
	}
	if got := strings.Fields(nameList(plan)); got[3] != "spare-4" || got[6] != "spare-7" || got[7] != "spare-8" {
		t.Errorf("blocks %v", got)
	}
	again := mustPlan(t, facts, fromFile(plan), inFours)
	inUse := fromFile(plan)
	inUse.InUse = map[string]bool{"spare-4": true, blockNames(plan.Blocks())[0]: true}
	more := slices.Concat(facts, underSpine("s1", 9))
	if got := spines(mustPlan(t, more, inUse, inFours), more); got != "s1 s1 s1 s1 s2 s2 - - s3 - - -" {
		t.Errorf("%s: a place that is kept free is nobody's", got)
	}
	if diff := cmp.Diff(lines(plan), lines(again)); diff != "" {
		t.Errorf("another plan once it is published (-old +new):\n%s", diff)
	}
	mixed := slices.Concat(underSpine("s1", 1, 2), underSpine("s2", 3))
	grown := slices.Concat(mixed, underSpine("s1", 4), underSpine("s2", 5))
	if got := spines(mustPlan(t, grown, fromFile(mustPlan(t, mixed, nil, short)), inFours), grown); got != "s1 s1 s2 - s1 - - - s2 - - -" {
		t.Errorf("%s: parents that are set afterwards", got)
	}
	for _, c := range []struct {
		name  string
		facts []topology.Facts
		want  string
	}{
		{"a rack more takes the free place", slices.Concat(facts, underSpine("s1", 9)), "s1 s1 s1 s1 s2 s2 - - s3 - - -"},
		{"a rack more of the last", slices.Concat(facts, underSpine("s3", 9)), "s1 s1 s1 - s2 s2 - - s3 s3 - -"},
		{"a rack too many", slices.Concat(facts, underSpine("s1", 8, 9)), "s1 s1 s1 s1 s2 s2 - - s3 - - - s1 - - -"},
		{"a rack of a new spine", slices.Concat(facts, underSpine("s0", 8, 9)), "s1 s1 s1 - s2 s2 - - s3 - - - s0 s0 - -"},
		{"a rack goes", slices.DeleteFunc(slices.Clone(facts), func(f topology.Facts) bool { return strings.HasPrefix(f.Name, "r001") }), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			current := mustPlan(t, c.facts, fromFile(plan), inFours)
			if got := spines(current, c.facts); c.want != "" && got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			back := mustPlan(t, facts, fromFile(current), inFours)
			for i, b := range plan.Blocks() {
				if back.Blocks()[i].Name != b.Name && !strings.HasPrefix(b.Name, "spare-") || !slices.Equal(back.Blocks()[i].Nodes, b.Nodes) {
					t.Errorf("block %d is %v, was %v", i, back.Blocks()[i], b)
				}
			}
		})
	}
}

// TestPlanParentsByCluster tells NVLink clusters apart whose UUIDs begin alike, also by
// the names of blocks whose nodes are silent.
func TestPlanParentsByCluster(t *testing.T) {
	half := func(number int, last byte, clique uint32) []topology.Facts {
		return rack(number, 2, func(_ int, f *topology.Facts) {
			give(f, topology.Fabric{ClusterUUID: topology.UUID{1, 2, 3, 4, last}, CliqueID: clique, State: topology.FabricCompleted})
		})
	}
	facts := slices.Concat(half(1, 7, 1), half(2, 8, 3), half(3, 7, 2), half(4, 8, 4))
	plan := mustPlan(t, facts, nil, inFours)
	if diff := cmp.Diff("nvl[2 8]* 01 03 - - 02 04 - -", topologies(plan)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for i := range facts[:2] {
		facts[i].Report = nil
	}
	more := slices.Concat(facts, half(5, 7, 5))
	if diff := cmp.Diff("nvl[2 8]* 01 03 05 - 02 04 - -", topologies(mustPlan(t, more, fromFile(plan), inFours))); diff != "" {
		t.Errorf("a rack more beside silent nodes (-want +got):\n%s", diff)
	}
}

// TestPlanParentsAtRandom has racks come and go in any order: no published block
// changes its place, and no window has blocks of two parents.
func TestPlanParentsAtRandom(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 7))
		racks := make([][]topology.Facts, 24)
		for n := range racks {
			racks[n] = underSpine(fmt.Sprintf("s%d", rng.IntN(6)), n+1)
		}
		var prev *given
		at := map[string]int{}
		for step := range 15 {
			var facts []topology.Facts
			for _, r := range racks {
				if rng.IntN(3) > 0 {
					facts = append(facts, r...)
				}
			}
			if len(facts) == 0 {
				continue
			}
			plan := mustPlan(t, facts, prev, inFours)
			parents := strings.Fields(spines(plan, facts))
			for i, b := range plan.Blocks() {
				if old, ok := at[b.Name]; ok && old != i {
					t.Fatalf("seed %d, step %d: block %s was at %d, is at %d", seed, step, b.Name, old, i)
				}
				at[b.Name] = i
				for _, other := range parents[i-i%4 : i] {
					if other != "-" && parents[i] != "-" && other != parents[i] {
						t.Fatalf("seed %d, step %d: %s and %s are aggregated: %v", seed, step, other, parents[i], parents)
					}
				}
			}
			prev = fromFile(plan)
		}
	}
}
