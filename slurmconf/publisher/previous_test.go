package publisher

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestReadPlan makes all kinds of files for all shipped sites. The stored plan and the files say the places of the plan
// that was made. A plan that carries the stored one on makes the same, and no node's lines in gres.conf count as changed.
func TestReadPlan(t *testing.T) {
	for name, p := range map[string]Publication{
		"default": {}, "conf": {Format: "conf"}, "tree of 24.11": {Topology: "tree", SlurmVersion: "24.11"}, "tree": {Topology: "tree"}, "tree in conf": {Topology: "tree", Format: "conf"},
		"blocks alone": {Topology: "block"}, "leaves": {BlocksBy: "leaf"}, "leaves in conf": {BlocksBy: "leaf", Format: "conf"}, "parents": {ParentBlocks: 4},
		"flat default": {DefaultTopology: topology.FlatTopology, FlatTopology: true},
	} {
		for _, site := range simulated.Shipped() {
			t.Run(name+" "+site, func(t *testing.T) {
				pub := complete(t, p)[0]
				g := pub.Rules.Gather(snapshotOf(sites.Open(t, site)))
				made := makeOf(t, pub, g, Previous{})
				if name == "blocks alone" && made.Refused == "NothingToPublish" {
					return // the site has no NVLink domain
				}
				if made.Refused != "" {
					t.Fatal(made.Message)
				}
				prev := recalled(t, pub, made)
				plan := made.Stored
				if files, err := plan.Files(); err != nil || !maps.Equal(files, made.Files) {
					t.Errorf("%v, the stored plan gives\n%v", err, files)
				}
				lines := gres.ByNode(made.Stored.Devices, nil)
				if diff := cmp.Diff(lines, prev.Gres); diff != "" {
					t.Errorf("gres.conf (-made +read):\n%s", diff)
				}
				again := makeOf(t, pub, g, prev)
				if diff := cmp.Diff(made.Files, again.Files); diff != "" {
					t.Errorf("carried on (-first +again):\n%s", diff)
				}
				prev = previousOf(t, pub, made.Files)
				if found := differences(pub, &prev, made.Specs, g.Nodes, nodestatus.Difference{}); len(found) != 0 {
					t.Errorf("%d nodes have places, differences %v", len(made.Specs), found)
				}
			})
		}
	}
}
