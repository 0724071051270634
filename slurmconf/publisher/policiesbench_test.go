package publisher

import (
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// BenchmarkPolicies plans 10,008 nodes anew, and again from what is published, by
// the policies that put blocks elsewhere. The first is for comparison.
func BenchmarkPolicies(b *testing.B) {
	c := sites.Parse(b, `
groups:
  - racks: 556
    nodes: 18
    node: gb200-{node:05}
    nvlink: rack
    tiers: ["leaf-{rack}", "spine-{rack/8}", core]
    gpus: {count: 4, product: NVIDIA GB200}
`)
	for _, of := range []struct {
		name string
		pub  Publication
	}{
		{"default", Publication{}}, {"parents", Publication{ParentBlocks: 8}}, {"leaves", Publication{BlocksBy: "leaf"}},
	} {
		pub := complete(b, of.pub)[0]
		g := pub.Rules.Gather(snapshotOf(c))
		var prev placement.Previous
		for _, when := range []string{"new", "published"} {
			b.Run(of.name+" "+when, func(b *testing.B) {
				b.ReportAllocs()
				var plan *topology.Plan
				var err error
				pub.FabricSite(prev.Plan, nil).Judge(g.Facts)
				for b.Loop() {
					if plan, _, err = placement.MakePlan(placement.Observed{Facts: g.Facts}, prev, pub.Policy()); err != nil {
						b.Fatal(err)
					}
				}
				prev.Plan = plan
			})
		}
	}
}
