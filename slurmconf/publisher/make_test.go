package publisher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// TestMakeNothing makes files for nodes that have no place, and for a publication that takes no node.
func TestMakeNothing(t *testing.T) {
	gone := &topology.Plan{Topologies: []topology.Topology{{Name: "nvl", Kind: "block", Sizes: []int{2}, Blocks: []topology.Block{{Name: "nvl-8a61c302-1"}}}}}
	node := inputs.Inputs{Facts: []topology.Facts{{Name: "n1", SlurmName: "n1"}}}
	const noGPUs = "n1: NoGPUs: "
	for _, tt := range []struct {
		name  string
		nodes Selection
		in    inputs.Inputs
		prev  Previous
		want  string
		left  string
	}{
		{"no block", Selection{}, node, Previous{}, "no NVLink domain and no switch is known", noGPUs},
		{"only a block's place", Selection{}, node, Previous{Plan: gone}, "no node is in a block or switch", noGPUs},
		{"no node", Selection{}, inputs.Inputs{}, Previous{}, ": there is nothing to write; no node is known", ""},
		{"no node by labels", Selection{Selector: "pool=gpu"}, inputs.Inputs{}, Previous{}, ": there is nothing to write; no node has the labels of nodes.selector, which is pool=gpu", ""},
		{"no node by pods", Selection{Slinky: "hpc/a"}, inputs.Inputs{}, Previous{}, ": there is nothing to write; no node has a worker pod of nodes.slinky, which is hpc/a", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			made := makeOf(t, complete(t, Publication{Nodes: tt.nodes})[0], tt.in, tt.prev)
			if left := plandoc.LeftOut(made.Left); made.Refused != "NothingToPublish" || !strings.Contains(made.Message, tt.want) || !strings.HasPrefix(left, tt.left) {
				t.Errorf("refused %q for %q, left out %q: want %q and %q", made.Refused, made.Message, left, tt.want, tt.left)
			}
		})
	}
}

// TestMakeLeavesOutOfOneKind has nodes whose place is in the topology that a site does
// not write.
func TestMakeLeavesOutOfOneKind(t *testing.T) {
	inBlock := map[string]string{topology.CliqueLabel: "8a1c0f4c-1111-4f8e-9d1c-aaaaaaaaaaaa.1"}
	inTree := map[string]string{"network.topology.nvidia.com/leaf": "l1", "nvidia.com/gpu.count": "8"}
	both := &inputs.Snapshot{Nodes: []inputs.Node{{Name: "a1", Labels: inBlock}, {Name: "a2", Labels: inBlock}, {Name: "b1", Labels: inTree}}}
	tree := &inputs.Snapshot{Nodes: []inputs.Node{{Name: "b1", Labels: inTree}}}
	for _, tt := range []struct {
		name, kind    string
		snap          *inputs.Snapshot
		left, message string
	}{
		{"a tree without the nodes of a block", "tree", both, "a[1-2]: NoSwitch: no switch above its block is known, and only the tree is published", ""},
		{"no tree", "tree", &inputs.Snapshot{Nodes: both.Nodes[:2]}, "a[1-2]: NoSwitch: no switch above its block is known, and only the tree is published",
			"no switch is known: there is nothing to write of topology tree; nodes by reason: NoSwitch 2"},
		{"no block", "block", tree, "b1: NoNVLinkDomain: it is in the tree only, and only blocks are published",
			""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pub := complete(t, Publication{Topology: tt.kind})[0]
			made := makeOf(t, pub, pub.Rules.Gather(tt.snap), Previous{})
			if diff := cmp.Diff([]string{tt.left, tt.message}, []string{plandoc.LeftOut(made.Left), made.Message}); diff != "" {
				t.Errorf("left out, and why (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSummary counts what is in the files, and not what the plan has beside it.
func TestSummary(t *testing.T) {
	for kind, want := range map[string]string{"auto": "2 blocks, base size 2, 4 switches, 4 nodes", "tree": "4 switches, 4 nodes", "block": "2 blocks, base size 2, 4 nodes"} {
		pub := complete(t, Publication{Topology: kind})[0]
		if got := makeOf(t, pub, pub.Rules.Gather(siteOf(rackOf{"a", 1, 2}, rackOf{"a", 2, 2})), Previous{}).Summary(); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}
