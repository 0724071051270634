package placement_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestDivisionRests changes racks that are published, and publishes again: a third plan of the same facts is the
// second one.
func TestDivisionRests(t *testing.T) {
	one := placement.Policy{Divide: true, OneTopology: true}
	for _, tt := range []struct {
		name       string
		old, facts []topology.Facts
		policy     placement.Policy
		want       string
	}{
		{"one topology, and larger racks come beside a small one", inFabric("", 1, 2, 2, 2), inFabric("", 1, 3, 2, 3, 4, 4, 2), one, "nvl[2]* 01 02 03 04 05 06"},
		{"a rack of one fabric is now below the switches of another", slices.Concat(inFabric("a", 1, 3, 3), inFabric("b", 3, 3, 4)),
			slices.Concat(inFabric("a", 1, 3, 3, 3), inFabric("b", 4, 1)), divided, "nvl-a[3]* 01 02 03; nvl-b-x[4] 04"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			published := mustPlan(t, tt.old, nil, tt.policy)
			plan := mustPlan(t, tt.facts, previous(published), tt.policy)
			if diff := cmp.Diff(sortRacks(tt.want), sortRacks(topologies(plan))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again := mustPlan(t, tt.facts, previous(plan), tt.policy)
			if diff := cmp.Diff(plan.Topologies, again.Topologies); diff != "" {
				t.Errorf("once published (-was +is):\n%s", diff)
			}
		})
	}
}
