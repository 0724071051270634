package publisher

import (
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// largeSite are 10,008 nodes in 556 racks.
const largeSite = `
groups:
  - racks: 556
    nodes: 18
    node: gb200-{node:05}
    nvlink: rack
    gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144}
`

// largeFacts are the facts of largeSite.
func largeFacts(b *testing.B, pub *publication.Cluster) inputs.Inputs {
	b.Helper()
	return pub.Rules.Gather(snapshotOf(sites.Parse(b, largeSite)))
}

func BenchmarkLarge(b *testing.B) {
	for _, format := range []string{"conf", "yaml"} {
		pub := complete(b, Publication{Format: format})[0]
		facts := largeFacts(b, pub)
		pub.FabricSite(nil, nil).Judge(facts.Facts)
		b.Run("plan and render "+format, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan, _, err := placement.MakePlan(placement.Observed{Facts: facts.Facts}, placement.Previous{}, pub.Policy())
				if err != nil {
					b.Fatal(err)
				}
				topologies, err := slurmconf.FromPlan(plan, slurmconf.Choice{Kind: slurmconf.KindAuto, YAML: format == "yaml"})
				if err != nil {
					b.Fatal(err)
				}
				if format == "yaml" {
					_, err = slurmconf.RenderYAML(topologies, plandoc.Header)
				} else {
					_, err = slurmconf.RenderConf(topologies[0], plandoc.Header)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("with gres, parse back and lint "+format, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if made, err := Make(pub, facts, Previous{}); err != nil || made.Refused != "" {
					b.Fatal(err, made.Message)
				}
			}
		})
	}
}
