package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestPlanChoosesBase publishes racks for the first time, for 25.05 and newer.
func TestPlanChoosesBase(t *testing.T) {
	many := func(n, size int) []int { return slices.Repeat([]int{size}, n) }
	for _, tt := range []struct {
		name  string
		racks []int
		want  int
	}{
		{"one rack", []int{18}, 18},
		{"equal racks", many(8, 18), 18},
		{"half of the racks miss a node", []int{18, 18, 17, 17}, 18},
		{"most racks miss a node", []int{18, 17, 17, 17}, 17},
		{"two of forty miss a node", slices.Concat(many(38, 18), many(2, 17)), 18},
		{"half of forty miss a node", slices.Concat(many(20, 18), many(20, 17)), 17},
		{"one larger and one smaller rack", slices.Concat(many(8, 16), []int{17, 15}), 16},
		{"one rack is larger than all others", slices.Concat(many(8, 16), []int{18}), 16},
		{"one rack is hardly up", []int{18, 18, 18, 2}, 18},
		{"two racks are hardly up", []int{18, 18, 18, 2, 2}, 18},
		{"one of two is hardly up", []int{18, 2}, 18},
		{"racks of many sizes", []int{14, 15, 16, 17, 18, 14, 15, 16, 17, 18, 15, 16}, 16},
		{"a size between those of the racks", slices.Concat(many(10, 18), many(10, 12)), 15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := mustPlan(t, inFabric("", 1, tt.racks...), nil, divided)
			if got := plan.BaseBlockSize(); got != tt.want || len(plan.BlockTopologies()) != 1 {
				t.Errorf("base %d in %s, want %d", got, topologies(plan), tt.want)
			}
		})
	}
	mixed := mustPlan(t, inFabric("", 1, 16, 16, 16, 18, 8, 9, 8), nil, divided)
	if got := sortRacks(topologies(mixed)); got != "nvl[16]* 01 02 03 04 05 06 07" {
		t.Errorf("two classes: %s", got)
	}
	further := placement.Policy{BlockSizes: []int{36}}
	for racks, want := range map[[4]int]int{{18, 17, 17, 17}: 18, {18, 18, 18, 17}: 18, {10, 9, 9, 9}: 9, {20, 20, 20, 20}: 18} {
		plan := mustPlan(t, inFabric("", 1, racks[:]...), nil, further)
		if got := plan.BaseBlockSize(); got != want {
			t.Errorf("racks of %v and a further size of 36: base %d, want %d", racks, got, want)
		}
		for _, said := range saidOf(plan, placement.ReasonJobSizes) {
			if want := fmt.Sprintf("Slurm gives a job groups of blocks of the sizes [%d 36], ", want); !strings.Contains(said, want) {
				t.Errorf("racks of %v: %s, want %s", racks, said, want)
			}
		}
	}
	if _, _, err := makePlan(inFabric("", 1, 16, 16), nil, further); err == nil {
		t.Error("racks of 16 and a further size of 36 were taken")
	}
	old := mustPlan(t, inFabric("", 1, 18, 18), nil, further)
	if got := mustPlan(t, inFabric("", 1, 18, 18, 30, 30, 30), previous(old), further).BaseBlockSize(); got != 18 {
		t.Errorf("racks of 30 come, and the base is %d, want 18", got)
	}
}

// TestBaseCountsNodesWithoutName has the nodes of few machines in Slurm, as of a first NodeSet of two
// pods: the base is that of the whole domains, and stays when the pods come.
func TestBaseCountsNodesWithoutName(t *testing.T) {
	reported, labelled := site(4, 18), named(4, 18)
	for i := range labelled {
		labelled[i].Labels.GPUs = 4
	}
	leaves := inFabric("a", 1, 18, 18, 18, 18)
	byLeaf := with(func(p *placement.Policy) { p.ByLeaf = true })
	for _, tt := range []struct {
		name   string
		all    []topology.Facts
		policy placement.Policy
		first  int // the size of the first rack
	}{
		{"reports", reported, divided, 18},
		{"reports of a small rack, and of large ones without a pod", inFabric("", 1, 16, 18, 18, 18), divided, 16},
		{"labels", labelled, divided, 18},
		{"clique labels", byClique(4, 18), divided, 18},
		{"leaf switches", leaves, byLeaf, 18},
	} {
		t.Run(tt.name, func(t *testing.T) {
			prev := &given{}
			for _, pods := range [][]int{{0, 1}, {0}, {0, 1, 20, 40}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 20, 21, 40}} {
				in := func(i int) bool { return slices.Contains(pods, i) }
				var facts, unnamed []topology.Facts
				for i, f := range tt.all {
					if in(i) {
						facts = append(facts, f)
					} else {
						f.SlurmName = ""
						unnamed = append(unnamed, f)
					}
				}
				prev.Unnamed = unnamed
				plan := mustPlan(t, facts, prev, tt.policy)
				if plan.BaseBlockSize() != 18 || len(plan.Places()) != len(facts) || plan.Blocks()[0].Size != tt.first {
					t.Fatalf("pods on %v: base %d, %d nodes: %+v", pods, plan.BaseBlockSize(), len(plan.Places()), plan.Blocks())
				}
				if got := mustPlan(t, facts, previous(plan), tt.policy).BaseBlockSize(); got != 18 && tt.first == 18 {
					t.Errorf("pods on %v, the other nodes are gone: base %d", pods, got)
				}
				prev = previous(plan)
			}
		})
	}
}

// TestLeafOfTwoWriters has one leaf of 18 nodes that two writers name differently. Only two nodes have a name
// in Slurm, and only these have the names of both writers. The leaf is one domain.
func TestLeafOfTwoWriters(t *testing.T) {
	byLeaf := with(func(p *placement.Policy) { p.ByLeaf = true })
	first, second := []string{"leaf-1", "spine"}, []string{"net-7f3a", "net-top"}
	for name, of := range map[string]func(f *topology.Facts){
		"labels of two writers": func(f *topology.Facts) {
			f.Labels.Tiers, f.Labels.MoreTiers = first, []topology.SourceTiers{{TierSource: topology.TierSource{Name: "AWS"}, Tiers: second}}
		},
		"reports and labels": func(f *topology.Facts) {
			f.Report = &topology.Node{Name: f.Name, Tiers: first, GPUs: []topology.GPU{{UUID: "GPU-" + f.Name}}}
			f.Labels.Tiers = second
		},
	} {
		var facts, unnamed []topology.Facts
		for i, f := range inFabric("", 1, 18) {
			f.Report, f.Labels = nil, topology.Labels{GPUs: 8, Tiers: second}
			if i < 2 {
				of(&f)
				facts = append(facts, f)
				continue
			}
			f.SlurmName = ""
			unnamed = append(unnamed, f)
		}
		plan := mustPlan(t, facts, &given{Unnamed: unnamed}, byLeaf)
		if blocks := plan.Blocks(); len(blocks) != 1 || blocks[0].Name != "leaf-1" || blocks[0].Size != 18 || plan.BaseBlockSize() != 18 {
			t.Errorf("%s: base %d, blocks %+v", name, plan.BaseBlockSize(), blocks)
		}
	}
}

// TestBaseIsOffered publishes racks, and lets racks come, grow, and lose nodes.
func TestBaseIsOffered(t *testing.T) {
	nine := slices.Repeat([]int{9}, 4)
	for _, tt := range []struct {
		name           string
		published, now []int
		policy         placement.Policy
		base           int // that is published
		want           string
	}{
		{"nothing", []int{18, 18}, []int{18, 18}, divided, 18, ""},
		{"all racks lose nodes", []int{18, 18, 18}, []int{9, 9, 4}, divided, 18, ""},
		{"a rack is lost", []int{18, 17, 18}, []int{0, 17, 0}, divided, 18, ""},
		{"racks grow", nine, []int{18, 18, 18, 18}, divided, 9, "9 -> 18"},
		{"racks grow, and one comes up", []int{9, 9}, []int{18, 18, 18, 4}, divided, 9, "9 -> 18"},
		{"most racks grow, and make a class of their own", nine, []int{18, 18, 18, 9}, divided, 9, ""}, // see TestPlanNamesClasses
		{"one rack grows", nine, []int{18, 9, 9, 9}, divided, 9, ""},
		{"smaller racks come", []int{18, 18}, []int{18, 18, 16, 16, 16}, divided, 18, "18 -> 16"},
		{"a rack comes up", []int{18, 18}, []int{18, 18, 3}, divided, 18, ""},
		{"racks of another class come", []int{18, 18}, []int{18, 18, 9, 9, 9, 9, 9}, divided, 18, ""},
		{"larger racks come", []int{16, 16}, []int{16, 16, 18, 18, 18}, divided, 16, "16 -> 18"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old := mustPlan(t, inFabric("", 1, tt.published...), nil, tt.policy)
			facts := inFabric("", 1, tt.now...)
			wanted := mustPlan(t, facts, previous(old), tt.policy)
			policy := tt.policy
			policy.Waits = allWait
			decisions := choicesOf(t, placement.BaseSizeChange, facts, previous(old), tt.policy)
			if got := decisionsText(decisions); got != tt.want || old.BaseBlockSize() != tt.base {
				t.Fatalf("base %d, offered %q, want %d and %q", old.BaseBlockSize(), got, tt.base, tt.want)
			}
			kept := mustPlan(t, facts, previous(old), policy)
			if kept.BaseBlockSize() != tt.base || len(problemsOf(kept, placement.BaseSizeChange)) != len(decisions) {
				t.Errorf("held, and the base is %d with %v", kept.BaseBlockSize(), kept.Problems)
			}
			if again := choicesOf(t, placement.BaseSizeChange, facts, previous(kept), tt.policy); !cmp.Equal(again, decisions) {
				t.Errorf("offered %v again, was %v", again, decisions)
			}
			if changes := choicesOf(t, placement.BaseSizeChange, facts, previous(wanted), tt.policy); len(changes) > 0 {
				t.Errorf("approved, and %v is offered", changes)
			}
		})
	}
}
