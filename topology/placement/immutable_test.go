package placement_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/topology"
	fabrics "github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestArgumentsStay makes plans of arguments, and of a second copy of them that nobody has
// touched: what MakePlan was given is as before, also where it leaves out, keeps, moves and
// divides.
func TestArgumentsStay(t *testing.T) {
	type arguments struct {
		observed placement.Observed
		previous placement.Previous
		policy   placement.Policy
	}
	published := func(facts []topology.Facts, policy placement.Policy) *topology.Plan {
		return mustPlan(t, facts, nil, policy)
	}
	all := func(facts []topology.Facts) map[string]bool {
		names := map[string]bool{}
		for i := range facts {
			names[facts[i].SlurmName] = true
		}
		return names
	}
	for name, given := range map[string]func() arguments{
		"nothing is published": func() arguments {
			return arguments{observed: placement.Observed{Facts: slices.Concat(site(2, 4), rack(3, 1), leafSite())}, policy: placement.Policy{}}
		},
		"racks move, shrink and come": func() arguments {
			before := slices.Concat(underSpine("s1", 1, 2), underSpine("s2", 3))
			now := slices.Concat(underSpine("s1", 1, 2), underSpine("s2", 3), rack(7, 2))
			reads(&now[0], 3)
			confirm(&now[0])
			return arguments{placement.Observed{Facts: now[:len(now)-1], InUse: map[string]bool{"leaf-9": true}, Settling: &placement.Settling{Unsettled: all(now), Waited: map[string]bool{}}},
				placement.Previous{Plan: published(before, inFours), Reported: all(before)}, inFours}
		},
		"one topology, and nodes are gone": func() arguments {
			old := placement.Policy{OneTopology: true}
			before := slices.Concat(site(2, 4), rack(9, 9))
			return arguments{placement.Observed{Facts: slices.Concat(site(2, 3), rack(9, 9), rack(8, 2))}, placement.Previous{Plan: published(before, old)}, old}
		},
		"by leaf now": func() arguments {
			before := slices.Concat(site(2, 4), leafSite())
			plan := published(before, short)
			return arguments{placement.Observed{Facts: before, InUse: map[string]bool{plan.Blocks()[0].Name: true}}, placement.Previous{Plan: plan},
				placement.Policy{ByLeaf: true, Forget: []string{plan.Blocks()[1].Name}, ForgetSwitches: []string{"leaf-1"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			used, untouched := given(), given()
			for _, of := range []*arguments{&used, &untouched} {
				(&fabrics.Site{Plan: of.previous.Plan}).Judge(of.observed.Facts)
			}
			plan, _, err := placement.MakePlan(used.observed, used.previous, used.policy)
			if err != nil || len(plan.Units()) == 0 {
				t.Fatal(plan, err)
			}
			for i := range plan.Topologies { // the plan shares nothing with what it was made from
				for k := range plan.Topologies[i].Blocks {
					plan.Topologies[i].Blocks[k].Name = "changed"
					clear(plan.Topologies[i].Blocks[k].Nodes)
				}
				for k := range plan.Topologies[i].Switches {
					plan.Topologies[i].Switches[k].Name = "changed"
					clear(plan.Topologies[i].Switches[k].Nodes)
				}
			}
			if diff := cmp.Diff(untouched, used, cmp.AllowUnexported(arguments{}, topology.Facts{}), cmpopts.IgnoreUnexported(placement.Policy{})); diff != "" {
				t.Errorf("arguments (-before +after):\n%s", diff)
			}
		})
	}
}
