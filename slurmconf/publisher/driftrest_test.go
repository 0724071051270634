package publisher

import (
	"maps"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/testdata/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
)

// TestNothingDriftsAtRest publishes all kinds of files: read back, each says the places
// of the plan that it was made from.
func TestNothingDriftsAtRest(t *testing.T) {
	for name, p := range map[string]Publication{
		"default": {}, "conf": {Format: "conf"}, "tree of 24.11": {Topology: "tree", SlurmVersion: "24.11"}, "tree": {Topology: "tree"}, "tree in conf": {Topology: "tree", Format: "conf"},
		"blocks alone": {Topology: "block"}, "leaves": {BlocksBy: "leaf"}, "leaves in conf": {BlocksBy: "leaf", Format: "conf"}, "parents": {ParentBlocks: 4},
		"flat default": {DefaultTopology: topology.FlatTopology, FlatTopology: true},
	} {
		for _, site := range []string{"gb200-nvl72x4", "mixed", "hgx-h100"} {
			if name == "blocks alone" && site == "hgx-h100" {
				continue // it has no NVLink domain, and so no block
			}
			t.Run(name+" "+site, func(t *testing.T) {
				pub := complete(t, p)[0]
				g := pub.Rules.Gather(snapshotOf(sites.Open(t, site)))
				made, err := Make(pub, g, Previous{})
				if err != nil {
					t.Fatal(err)
				}
				if made.Refused != "" {
					t.Fatal(made.Message)
				}
				prev := previousOf(t, pub, made.Files)
				found := differences(pub, &prev, made.Specs, g.Nodes, nodestatus.Difference{})
				if len(made.Specs) == 0 || len(found) != 0 {
					t.Errorf("%d nodes have places, differences %v", len(made.Specs), found)
				}
			})
		}
	}
}

// BenchmarkDrift compares files that are held with a plan that has each of 10,008 nodes
// elsewhere.
func BenchmarkDrift(b *testing.B) {
	pub := complete(b, Publication{})[0]
	g := largeFacts(b, pub)
	made, err := Make(pub, g, Previous{})
	if err != nil {
		b.Fatal(err)
	}
	prev := previousOf(b, pub, made.Files)
	elsewhere := maps.Clone(made.Specs)
	for name := range elsewhere {
		elsewhere[name] += "x"
	}
	now := time.Now()
	for name, specs := range map[string]map[string]string{"none": made.Specs, "all": elsewhere} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			keeper := nodestatus.New(nodestatus.Options{}, nil, now, nil)
			for b.Loop() {
				found := nodestatus.Pass{Plan: made.Plan, Differences: differences(pub, &prev, specs, g.Nodes, heldFor(pub, "BigChange"))}
				if keeper.Found("default", &found, now); name == "all" && len(found.Differences) != len(specs) {
					b.Fatal(len(found.Differences))
				}
			}
		})
	}
}
