package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// mixedSite is two racks of four, five machines whose NVLink ends inside, one that
// is still registering, and two without GPUs.
func mixedSite() []topology.Facts {
	facts := site(2, 4)
	for n := range 5 {
		facts = append(facts, below(fmt.Sprintf("h%d", n+1)))
	}
	waiting := below("w1")
	waiting.Report.GPUs[0].Fabric.State = topology.FabricInProgress
	return append(facts, waiting, topology.Facts{Name: "c1", SlurmName: "c1"}, topology.Facts{Name: "c2", SlurmName: "c2"})
}

func TestPlanLeavesOut(t *testing.T) {
	facts := mixedSite()
	ofProduct("NVIDIA GB200", facts[:8]...)
	ofProduct("NVIDIA GB300", facts[3])
	facts[5].Report.Problems = []topology.Finding{{Reason: "GPUUnreadable", Message: "open GPU 1: GPU_IS_LOST"}}
	plan := mustPlan(t, facts, nil, short)
	for _, prev := range []*given{nil, fromFile(plan)} {
		plan := mustPlan(t, facts, prev, short)
		var got []string
		at := plan.Places()
		for _, pl := range plan.Nodes {
			if at[pl.SlurmName].Block == "" {
				got = append(got, pl.Node+" "+pl.Reason)
			}
		}
		want := []string{"c1 NoGPUs", "c2 NoGPUs", "h1 NoNVLinkDomain", "h2 NoNVLinkDomain", "h3 NoNVLinkDomain", "h4 NoNVLinkDomain", "h5 NoNVLinkDomain", "w1 FabricInProgress"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("left out (-want +got):\n%s", diff)
		}
		named := strings.Join(lines(plan), " ")
		if slices.ContainsFunc(got, func(s string) bool { return strings.Contains(named, strings.Fields(s)[0]) }) || !slices.Equal(reasonsOf(plan.Problems, ""), []string{"ProductsDiffer r001n04", "GPUUnreadable r002n02"}) {
			t.Errorf("blocks %s, problems %v: want the racks alone, one node of another product, and what the report of another node says", named, plan.Problems)
		}
	}
}
