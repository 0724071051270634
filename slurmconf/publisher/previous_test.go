package publisher

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestReadPlanRecalls publishes blocks alone. What the files do not say is in the stored
// plan: the fabric of each topology, and the sizes of racks.
func TestReadPlanRecalls(t *testing.T) {
	old := siteOf(rackOf{"a", 1, 6}, rackOf{"b", 2, 6})
	noLabels := siteOf(rackOf{"a", 1, 6}, rackOf{"b", 2, 6})
	for i := range noLabels.Nodes {
		noLabels.Nodes[i].Labels = map[string]string{nodelabels.Count: "1"}
	}
	blocks := Publication{Format: "yaml", Topology: "block", Fabrics: "separate"}
	classes := blocks
	classes.SizeClasses = []int{6, 3}
	for _, tt := range []struct {
		name     string
		old, now *inputs.Snapshot
		pub      Publication
		want     []string
	}{
		{"no switch is known any more", old, noLabels, blocks, []string{"nvl-a", "nvl-b"}},
		{"a rack has lost nodes before classes are set", siteOf(rackOf{"a", 1, 6}, rackOf{"a", 2, 6}), siteOf(rackOf{"a", 1, 6}, rackOf{"a", 2, 3}), classes, []string{"nvl"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, pub := complete(t, blocks)[0], complete(t, tt.pub)[0]
			made := makeOf(t, first, first.Rules.Gather(tt.old), Previous{})
			next := makeOf(t, pub, pub.Rules.Gather(tt.now), recalled(t, pub, made))
			var got []string
			for _, topo := range next.Plan.BlockTopologies() {
				got = append(got, topo.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("topologies (-want +got):\n%s", diff)
			}
		})
	}
}

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
