package publisher

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestTopologyInUse configures the default topology away. While Node annotations name it, it stays in the file, beside
// the next default, and a problem says so.
func TestTopologyInUse(t *testing.T) {
	both := complete(t, Publication{DefaultTopology: topology.FabricTopology})[0]
	pub := complete(t, Publication{Topology: "block"})[0]
	prev := recalled(t, both, makeFiles(t, both, both.Rules.Gather(racks(t)), Previous{}))
	for name, tt := range map[string]struct {
		inUse unitsInUse
		want  string
	}{
		"in use":     {unitsInUse{"fabric:": true}, "nvl true, fabric false, TopologyInUse"},
		"not in use": {unitsInUse{}, "nvl true"},
	} {
		g := gathered{Inputs: pub.Rules.Gather(racks(t)), prev: prev, inUse: tt.inUse}
		g.ofFabrics = pub.FabricSite(prev.Plan, nil).Judge(g.Facts, g.UnnamedFacts)
		made, err := makeKept(pub, &g)
		if err != nil || made.Refused != "" {
			t.Fatalf("%s: %v %s", name, err, made.Message)
		}
		plan, err := plandoc.FromFiles(made.Files)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for i := range plan.Topologies {
			got = append(got, fmt.Sprint(plan.Topologies[i].Name, " ", plan.Topologies[i].Default))
		}
		for _, p := range made.FilePlan.Problems {
			if p.Reason == placement.TopologyInUse {
				got = append(got, p.Reason)
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: topologies, and problems (-want +got):\n%s", name, diff)
		}
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
				plan := made.FilePlan
				if files, err := plan.Files(); err != nil || !maps.Equal(files, made.Files) {
					t.Errorf("%v, the stored plan gives\n%v", err, files)
				}
				lines := gres.ByNode(made.FilePlan.Devices, nil)
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
