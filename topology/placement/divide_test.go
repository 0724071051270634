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

// inFabric returns racks of as many nodes as sizes say, below one root switch. The first is
// of this number.
func inFabric(root string, number int, sizes ...int) []topology.Facts {
	var out []topology.Facts
	for i, n := range sizes {
		out = append(out, rack(number+i, n, func(_ int, f *topology.Facts) {
			if root != "" {
				f.Labels.Tiers = []string{fmt.Sprintf("leaf-%d", number+i), "spine-" + root, root}
			}
		})...)
	}
	return out
}

// belowCore puts one more switch above all nodes.
func belowCore(core string, facts []topology.Facts) []topology.Facts {
	out := slices.Clone(facts)
	for i := range out {
		out[i].Labels.Tiers = append(slices.Clone(out[i].Labels.Tiers), core)
	}
	return out
}

// topologies writes each topology with its sizes, its racks in the order of their blocks,
// and a star at the default.
func topologies(p *topology.Plan) string {
	var out []string
	for _, t := range p.BlockTopologies() {
		words := []string{fmt.Sprint(t.Name, t.Sizes)}
		if t.Default {
			words[0] += "*"
		}
		for _, b := range t.Blocks {
			if len(b.Nodes) > 0 {
				words = append(words, b.Nodes[0][2:4])
			} else {
				words = append(words, "-")
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, "; ")
}

// divided is the policy of a site whose fabrics are separate.
var divided = placement.Policy{EmptyLeaves: true, SeparateFabrics: true}

// with returns the policy of a site whose fabrics are separate, and that sets more.
func with(change func(p *placement.Policy)) placement.Policy {
	p := divided
	change(&p)
	return p
}

// classes is the policy of such a site that sets the sizes of its racks.
func classes(sizes ...int) placement.Policy {
	return with(func(p *placement.Policy) { p.SizeClasses = sizes })
}

func TestPlanDivides(t *testing.T) {
	mixed := inFabric("", 1, 18, 18, 18, 9, 9, 9, 9)
	for _, tt := range []struct {
		name   string
		facts  []topology.Facts
		policy placement.Policy
		want   string
	}{
		{"no rack", nil, divided, ""},
		{"large and small racks", mixed, divided, "nvl[18]* 01 02 03 04 05 06 07"},
		{"large and small racks, and classes are set", mixed, classes(18, 9), "nvl-18[18]* 01 02 03; nvl-9[9] 04 05 06 07"},
		{"small racks with more GPUs", inFabric("", 1, 6, 3, 3, 3), classes(6, 3), "nvl-6[6] 01; nvl-3[3]* 02 03 04"},
		{"trays are missing", inFabric("", 1, 18, 14, 12), divided, "nvl[14]* 01 02 03"},
		{"sizes between the classes", inFabric("", 1, 18, 10, 9, 4, 20), classes(18, 9), "nvl-18[18]* 01 02 05; nvl-9[9] 03 04"},
		{"a class that no rack has", inFabric("", 1, 18), classes(18, 9), "nvl[18]* 01"},
		{"the base is set", mixed, with(func(p *placement.Policy) { p.BaseBlockSize = 9 }), "nvl[9]* 01 02 03 04 05 06 07"},
		{"the base and further sizes are set", mixed, with(func(p *placement.Policy) { p.BaseBlockSize, p.BlockSizes = 9, []int{18, 72} }), "nvl[9 18 72]* 01 02 03 04 05 06 07"},
		{"two fabrics", slices.Concat(inFabric("a", 1, 4, 4), inFabric("b", 3, 4, 4, 4)), divided, "nvl-a[4] 01 02; nvl-b[4]* 03 04 05"},
		{"two fabrics, and the base is set", slices.Concat(inFabric("a", 1, 4, 4), inFabric("b", 3, 4)), with(func(p *placement.Policy) { p.BaseBlockSize = 2 }), "nvl-a[2]* 01 02; nvl-b[2] 03"},
		{"one fabric", slices.Concat(inFabric("a", 1, 4, 4), inFabric("a", 3, 4)), divided, "nvl[4]* 01 02 03"},
		{"fabrics of other sizes", slices.Concat(inFabric("a", 1, 6, 3, 6, 3), inFabric("b", 5, 3, 3)), divided, "nvl-a[6]* 01 02 03 04; nvl-b[3] 05 06"},
		{"fabrics of other sizes, and classes are set", slices.Concat(inFabric("a", 1, 6, 3, 6, 3), inFabric("b", 5, 3, 3)), classes(6, 3), "nvl-a-6[6]* 01 03; nvl-a-3[3] 02 04; nvl-b[3] 05 06"},
		{"a fabric with a name that Slurm does not take", slices.Concat(inFabric("a.b", 1, 4), inFabric("b", 3, 4)), divided, "nvl-a-b-2e7336dcx[4]* 01; nvl-b[4] 03"},
		{"a rack of no known fabric", slices.Concat(inFabric("a", 1, 4), inFabric("b", 2, 4), inFabric("", 3, 4)), divided, "nvl-a[4]* 01; nvl-b[4] 02"},
		{"a rack of no known fabric beside one fabric", slices.Concat(inFabric("a", 1, 4), inFabric("", 3, 4)), divided, "nvl[4]* 01 03"},
		{"parent domains", slices.Concat(inFabric("a", 1, 4, 4, 4), inFabric("b", 4, 4)), with(func(p *placement.Policy) { p.ParentBlocks = 2 }), "nvl-a[4 8]* 01 02 03 -; nvl-b[4 8] 04 -"},
		{"by leaf", inFabric("a", 1, 8, 8, 3), with(func(p *placement.Policy) { p.ByLeaf = true }), "leaf[8]* 01 02 03"},
		{"one topology", mixed, with(func(p *placement.Policy) { p.OneTopology = true }), "nvl[18]* 01 02 03 04 05 06 07"},
		{"one topology, and classes are set", mixed, with(func(p *placement.Policy) { p.OneTopology, p.SizeClasses = true, []int{18, 9} }), "nvl[18]* 01 02 03"},
		{"one topology, and two fabrics", slices.Concat(inFabric("a", 1, 4, 4), inFabric("b", 3, 4)), with(func(p *placement.Policy) { p.OneTopology = true }), "nvl[4]* 01 02"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := mustPlan(t, tt.facts, nil, tt.policy)
			got := topologies(plan)
			if diff := cmp.Diff(sortRacks(tt.want), sortRacks(got)); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			if again := topologies(mustPlan(t, tt.facts, previous(plan), tt.policy)); again != got {
				t.Errorf("published, the plan is %s, was %s", again, got)
			}
			if !tt.policy.OneTopology {
				return
			}
			at := plan.Places()
			for _, pl := range plan.Nodes {
				if out := at[pl.SlurmName].Block == ""; out != (pl.Reason == placement.ReasonOtherTopology) {
					t.Errorf("%+v", pl)
				}
			}
		})
	}
}

// sortRacks sorts the racks of every topology, because blocks are in the order of cliques.
func sortRacks(text string) string {
	parts := strings.Split(text, "; ")
	for i, p := range parts {
		words := strings.Fields(p)
		if len(words) > 1 {
			slices.Sort(words[1:])
		}
		parts[i] = strings.Join(words, " ")
	}
	return strings.Join(parts, "; ")
}

// TestPlanDividesPublished changes the racks of a site, or what the site sets. Published topologies keep their racks and
// their places. What the plan remembers and what a topology file holds give the same.
func TestPlanDividesPublished(t *testing.T) {
	sized, whole, mixed := inFabric("", 1, 6, 6, 3, 3), inFabric("a", 1, 6, 6, 6, 6), inFabric("a", 1, 6, 6, 3, 3)
	two := slices.Concat(inFabric("a", 1, 6), inFabric("b", 2, 6))
	less := func(racks ...int) []topology.Facts {
		return slices.DeleteFunc(slices.Clone(sized), func(f topology.Facts) bool {
			var r, n int
			_, _ = fmt.Sscanf(f.Name, "r%03dn%02d", &r, &n)
			return slices.Contains(racks, r) && n > 3
		})
	}
	for _, tt := range []struct {
		name   string
		old    []topology.Facts
		by     placement.Policy // of the published plan
		facts  []topology.Facts
		policy placement.Policy
		want   string
		lost   []string
	}{
		{"a rack loses half of its nodes", sized, classes(6, 3), less(1), divided, "nvl-6[6] 01 02; nvl-3[3] 03 04", nil},
		{"all large racks do", sized, classes(6, 3), less(1, 2), divided, "nvl-6[6] 01 02; nvl-3[3] 03 04", nil},
		{"a rack goes", sized, classes(6, 3), sized[6:], divided, "nvl-6[6] - 02; nvl-3[3] 03 04", nil},
		{"all large racks go", sized, classes(6, 3), sized[12:], divided, "nvl-6[6] - -; nvl-3[3] 03 04", nil},
		{"a small rack comes", sized, classes(6, 3), slices.Concat(sized, rack(5, 2)), divided, "nvl-6[6] 01 02; nvl-3[3] 03 04 05", nil},
		{"a large rack comes", sized, classes(6, 3), slices.Concat(sized, rack(5, 5)), divided, "nvl-6[6] 01 02 05; nvl-3[3] 03 04", nil},
		{"a rack comes that is larger than all", sized, classes(6, 3), slices.Concat(sized, rack(5, 12)), divided, "nvl-6[6] 01 02 05; nvl-3[3] 03 04", nil},
		{"a small rack turns out to be a large one", sized, classes(6, 3), slices.Concat(inFabric("", 1, 6, 6, 3), rack(4, 6)), divided, "nvl-6[6] 01 02 04; nvl-3[3] 03", nil},
		{"racks of one topology lose nodes", whole, short, mixed, divided, "nvl[6] 01 02 03 04", nil},
		{"small racks in one topology", mixed, short, mixed, divided, "nvl[6] 01 02 03 04", nil},
		{"small racks in one topology, and classes are set", mixed, short, mixed, classes(6, 3), "nvl-6[6] 01 02; nvl-3[3] 03 04", []string{"nvl"}},
		{"a rack comes up in one topology", whole, short, slices.Concat(whole, inFabric("a", 5, 3)), divided, "nvl[6] 01 02 03 04 05", nil},
		{"a rack comes, and its switches are not known", whole, short, slices.Concat(whole, inFabric("", 5, 6)), divided, "nvl[6] 01 02 03 04 05", nil},
		{"two root switches, published as one topology", two, short, two, divided, "nvl-a[6] 01; nvl-b[6] 02", []string{"nvl"}},
		{"two root switches, and a core above them", two, short, belowCore("core", two), divided, "nvl[6] 01 02", nil},
		{"a second fabric comes", whole, short, slices.Concat(whole, inFabric("b", 5, 6)), divided, "nvl-a[6] 01 02 03 04; nvl-b[6] 05", []string{"nvl"}},
		{"a third fabric comes", two, divided, slices.Concat(two, inFabric("c", 3, 6)), divided, "nvl-a[6] 01; nvl-b[6] 02; nvl-c[6] 03", nil},
		{"racks of one of two fabrics grow", slices.Concat(inFabric("a", 1, 3, 3), inFabric("b", 3, 6)), divided, slices.Concat(inFabric("a", 1, 6, 6), inFabric("b", 3, 6)), divided, "nvl-a[6] 01 02; nvl-b[6] 03", nil},
		{"the large racks are forgotten", sized, classes(6, 3), sized[12:], with(func(p *placement.Policy) {
			p.Forget = []string{cliqueOf(1).BlockNames()[0], cliqueOf(2).BlockNames()[0]}
		}), "nvl-3[3] 03 04", []string{"nvl-6"}},
		{"a root has another name", two, divided, slices.Concat(inFabric("z", 1, 6), inFabric("b", 2, 6)), divided, "nvl-a[6] 01; nvl-b[6] 02", nil},
		{"a root has another name, and a new root has its name", two, divided, slices.Concat(inFabric("z", 1, 6), inFabric("b", 2, 6), inFabric("a", 3, 6)), divided, "nvl-a[6] 01; nvl-b[6] 02; nvl-a-x[6] 03", nil},
		{"a rack moves to another fabric", slices.Concat(inFabric("a", 1, 6, 6, 6), inFabric("b", 4, 6)), divided, slices.Concat(inFabric("a", 1, 6, 6), inFabric("b", 3, 6, 6)), divided, "nvl-a[6] 01 02; nvl-b[6] 03 04", nil},
		{"no root is known in one fabric", two, divided, slices.Concat(inFabric("", 1, 6), inFabric("b", 2, 6)), divided, "nvl-a[6] 01; nvl-b[6] 02", nil},
		{"no root is known", two, divided, inFabric("", 1, 6, 6), divided, "nvl-a[6] 01; nvl-b[6] 02", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := mustPlan(t, tt.old, nil, tt.by)
			for from, prev := range map[string]*given{"plan": previous(plan), "file": fromFile(plan)} {
				got := mustPlan(t, tt.facts, prev, tt.policy)
				if diff := cmp.Diff(sortRacks(tt.want), sortRacks(strings.ReplaceAll(topologies(got), "*", ""))); diff != "" {
					t.Errorf("from a %s (-want +got):\n%s", from, diff)
				}
				if diff := cmp.Diff(tt.lost, got.LostTopologies(plan)); diff != "" {
					t.Errorf("from a %s, lost topologies (-want +got):\n%s", from, diff)
				}
				if again := mustPlan(t, tt.facts, previous(got), tt.policy); from == "plan" && topologies(again) != topologies(got) {
					t.Errorf("once more: %s", topologies(again))
				}
			}
		})
	}
	unequal := inFabric("", 1, 6, 6, 3, 2, 2) // the base of the small racks becomes smaller than the largest of these
	plan := mustPlan(t, unequal, previous(mustPlan(t, unequal, nil, classes(6, 3))), divided)
	for range 2 {
		if got := sortRacks(topologies(plan)); got != "nvl-6[6]* 01 02; nvl-3[2] 03 04 05" {
			t.Errorf("small racks of unequal sizes: %s", got)
		}
		plan = mustPlan(t, unequal, previous(plan), divided)
	}
}

// TestBlockOfTwoTopologies has a block in two topologies: one of them stays in the file as long as nodes are registered
// with its blocks. The topology that has all racks has the block once.
func TestBlockOfTwoTopologies(t *testing.T) {
	mixed := inFabric("a", 1, 6, 6, 3)
	plan := mustPlan(t, mixed, nil, classes(6, 3))
	double := plan.Topologies[0].Blocks[0]
	double.Nodes = nil
	plan.Topologies[1].Blocks = append(plan.Topologies[1].Blocks, double)
	prev := previous(plan)
	prev.InUse = map[string]bool{double.Name: true}
	if diff := cmp.Diff("nvl-3[3]* 01 02 03", sortRacks(topologies(mustPlan(t, mixed, prev, divided)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPlanDividesAtRandom has nodes of racks in three fabrics come and go: no rack
// changes its topology because nodes are missing, no block its place, and no topology
// has racks of two fabrics.
func TestPlanDividesAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		fabric, size := map[string]string{}, map[string]int{}
		var racks [][]topology.Facts
		for n := range 18 {
			name, nodes := fmt.Sprintf("r%03d", n+1), []int{8, 4}[rng.IntN(2)]
			fabric[name], size[name] = fmt.Sprintf("core%d", rng.IntN(3)), nodes
			racks = append(racks, inFabric(fabric[name], n+1, nodes))
		}
		plan := mustPlan(t, slices.Concat(racks...), nil, divided)
		at := places(plan)
		for step := range 10 {
			var facts []topology.Facts
			for _, r := range racks {
				facts = append(facts, r[:rng.IntN(len(r)+1)]...)
			}
			next := mustPlan(t, facts, previous(plan), divided)
			for name, old := range at {
				if got := places(next)[name]; got != old {
					t.Fatalf("seed %d, step %d: block %s is at %s, was at %s", seed, step, name, got, old)
				}
			}
			in := map[string]string{}
			for _, u := range next.Units() {
				for _, n := range u.Nodes {
					f := fabric[n[:4]]
					if other, ok := in[u.Topology]; ok && other != f && u.Kind == topology.KindBlock {
						t.Fatalf("seed %d, step %d: topology %s joins %s and %s", seed, step, u.Topology, other, f)
					}
					in[u.Topology] = f
				}
			}
			plan = next
		}
	}
}

// places are the topology and the place in it of every block.
func places(p *topology.Plan) map[string]string {
	at := map[string]string{}
	for _, t := range p.BlockTopologies() {
		for i, b := range t.Blocks {
			at[b.Name] = fmt.Sprint(t.Name, " ", i)
		}
	}
	return at
}
