package nodelabels_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// awsFacts are nodes by the switches above them, from the top.
func awsFacts(nodes ...string) []topology.Facts {
	var facts []topology.Facts
	for i, path := range nodes {
		labels := map[string]string{nodelabels.Count: "8"}
		for layer, s := range strings.Fields(path) {
			labels[fmt.Sprintf("topology.k8s.aws/network-node-layer-%d", layer+1)] = s
		}
		name := fmt.Sprintf("n%d", i)
		facts = append(facts, topology.Facts{Name: name, SlurmName: name, Labels: nodelabels.Read(labels, auto)})
	}
	return facts
}

// TestLevel mixes machines below AWS's third layer with some below the fourth.
func TestLevel(t *testing.T) {
	short, long := []string{"top m1 a", "top m1 b"}, []string{"top m1 b c", "top m2 d e"}
	mixed := "a: n0; b: n1; c: n2; e: n3; a-layer3: a; b-layer3: b c; d-layer3: e; m1: a-layer3 b-layer3; m2: d-layer3; top: m1 m2"
	for _, tt := range []struct {
		name  string
		nodes []string
		prev  []string // nodes of a plan that was published before
		want  string
	}{
		{"three layers", short, nil, "a: n0; b: n1; m1: a b; top: m1"},
		{"four layers", long, nil, "c: n0; e: n1; b: c; d: e; m1: b; m2: d; top: m1 m2"},
		{"both, some below one switch", append(short[:2:2], long...), nil, mixed},
		{"the longer ones have gone", short, append(short[:2:2], long...), "a: n0; b: n1; c: ; e: ; a-layer3: a; b-layer3: b c; d-layer3: e; m1: a-layer3 b-layer3; m2: d-layer3; top: m1 m2"},
		{"the shorter ones have gone", long, append(short[:2:2], long...), "a: ; b: ; c: n0; e: n1; a-layer3: a; b-layer3: b c; d-layer3: e; m1: a-layer3 b-layer3; m2: d-layer3; top: m1 m2"},
		{"the third layer is missing", []string{"top m1 a", "top m1 b c", "top m1 - d", "top m1"}, nil, "a: n0; c: n1; d: n2; m1-leaf: n3; a-layer3: a; b-layer3: c; m1: a-layer3 b-layer3 d m1-leaf; top: m1"},
		{"longer ones came", append(short[:2:2], long...), short, mixed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var prev *topology.Plan
			if tt.prev != nil {
				plan := planOf(t, nodelabels.Level(awsFacts(tt.prev...), nil), nil)
				prev = plan
			}
			facts := awsFacts(tt.nodes...)
			published := prev.InnerSwitches()
			levelled := nodelabels.Level(facts, published)
			if diff := cmp.Diff(awsFacts(tt.nodes...), facts); diff != "" {
				t.Errorf("the facts were changed:\n%s", diff)
			}
			if diff := cmp.Diff(levelled, nodelabels.Level(levelled, published)); diff != "" {
				t.Errorf("twice is not once:\n%s", diff)
			}
			if got := text(planOf(t, levelled, prev)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func planOf(t *testing.T, facts []topology.Facts, prev *topology.Plan) *topology.Plan {
	t.Helper()
	(&fabric.Site{Plan: prev}).Judge(facts)
	plan, _, err := placement.MakePlan(placement.Observed{Facts: facts}, placement.Previous{Plan: prev}, placement.Policy{EmptyLeaves: true})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func text(plan *topology.Plan) string {
	var parts []string
	for _, s := range plan.Switches() {
		parts = append(parts, s.Name+": "+strings.Join(append(s.Nodes, s.Children...), " "))
	}
	return strings.Join(parts, "; ")
}
