package placement_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// leafSite is three leaves of four machines whose NVLink ends inside, two below
// one spine.
func leafSite() []topology.Facts {
	return leaves([]string{"spine-1"}, []string{"spine-1"}, []string{"spine-2"})
}

var byLeaf = placement.Policy{EmptyLeaves: true, ByLeaf: true}

func TestPlanByLeaf(t *testing.T) {
	facts := leafSite()
	plan := mustPlan(t, facts, nil, byLeaf)
	want := []string{"sizes [4]", "leaf-1 n11,n12,n13,n14", "leaf-2 n21,n22,n23,n24", "leaf-3 n31,n32,n33,n34"}
	if diff := cmp.Diff(want, lines(plan)[:4]); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if !plan.ByLeaf || plan.Nodes[0].Source != "switch" || placeOf(plan, 0).Leaf != "leaf-1" {
		t.Errorf("by leaf %v, %+v", plan.ByLeaf, plan.Nodes[0])
	}
	prev := fromFile(plan)
	conf := fromFile(plan)
	conf.ByLeaf = false // a topology.conf does not tell
	for name, change := range map[string]func(f []topology.Facts){
		"labels go missing":   func(f []topology.Facts) { cut(&f[0], 0); cut(&f[5], 0) },
		"all labels are gone": func(f []topology.Facts) { each(f, func(f *topology.Facts) { cut(f, 0) }) },
		"a node is gone":      func(f []topology.Facts) { f[3] = topology.Facts{Name: "n14", SlurmName: "n14", Gone: true} },
		"a clique appears": func(f []topology.Facts) {
			each(f, func(f *topology.Facts) { f.Labels.Clique = topology.Clique{ClusterUUID: clusterUUID(1), ID: 1} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := slices.Clone(facts)
			change(changed)
			current := mustPlan(t, changed, prev, byLeaf)
			if diff := cmp.Diff(lines(plan), lines(current)); diff != "" || len(problemsOf(current, placement.ReasonUnconfirmed)) > 0 {
				t.Errorf("%v (-old +new):\n%s", current.Problems, diff)
			}
			if diff := cmp.Diff(lines(plan), lines(mustPlan(t, changed, conf, byLeaf))); diff != "" {
				t.Errorf("of a topology.conf (-old +new):\n%s", diff)
			}
		})
	}
	t.Run("a node moves", func(t *testing.T) {
		moved := slices.Clone(facts)
		moved[0] = below("n11", "leaf-2", "spine-1")
		if current := mustPlan(t, moved, prev, byLeaf); placeOf(current, 0).Block != "leaf-2" || current.BaseBlockSize() != 4 {
			t.Errorf("%+v, base %d", current.Nodes[0], current.BaseBlockSize())
		}
	})
	t.Run("a new leaf", func(t *testing.T) {
		grown := append(slices.Clone(facts), below("n41", "leaf-4", "spine-1"))
		if got := nameList(mustPlan(t, grown, prev, byLeaf)); got != "leaf-1 leaf-2 leaf-4 leaf-3" {
			t.Errorf("blocks %s: want the new one behind its neighbours", got)
		}
	})
	t.Run("from NVLink blocks", func(t *testing.T) {
		nvlink := fromFile(mustPlan(t, site(2, 3), nil, short))
		if got := nameList(mustPlan(t, facts, nvlink, byLeaf)); got != "leaf-1 leaf-2 leaf-3" {
			t.Errorf("blocks %s: want none of another kind", got)
		}
	})
	t.Run("reserved names", func(t *testing.T) {
		odd := []topology.Facts{below("a", "spare-1")}
		if got := nameList(mustPlan(t, odd, nil, byLeaf)); got != "tier0-spare-1-947c74d1x" {
			t.Errorf("blocks %s", got)
		}
	})
}

func each(facts []topology.Facts, change func(f *topology.Facts)) {
	for i := range facts {
		change(&facts[i])
	}
}

// nameList is the blocks in their order.
func nameList(p *topology.Plan) string { return strings.Join(blockNames(p.Blocks()), " ") }
