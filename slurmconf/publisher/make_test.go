package publisher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

func TestMakeNothing(t *testing.T) {
	pub := complete(t, Publication{})[0]
	gone := &topology.Plan{Topologies: []topology.Topology{{Name: "nvl", Kind: "block", Sizes: []int{2}, Blocks: []topology.Block{{Name: "nvl-8a61c302-1"}}}}}
	for name, tt := range map[string]struct {
		prev Previous
		want string
	}{
		"no block":             {Previous{}, "no NVLink domain and no switch is known"},
		"only a block's place": {Previous{Plan: gone}, "no node is in a block or switch"},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := Make(pub, inputs.Inputs{Facts: []topology.Facts{{Name: "n1", SlurmName: "n1"}}}, tt.prev)
			if err != nil {
				t.Fatal(err)
			}
			if made.Refused != "NothingToPublish" || !strings.HasPrefix(made.Message, tt.want) || !strings.HasPrefix(plandoc.LeftOut(made.Left), "n1: NoGPUs: ") {
				t.Errorf("refused %q for %q, left out %q: want %q and why n1 is left out", made.Refused, made.Message, plandoc.LeftOut(made.Left), tt.want)
			}
		})
	}
}

// TestMakeOfNoNode makes files for a publication that takes no node.
func TestMakeOfNoNode(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes Selection
		want  string
	}{
		{"all nodes", Selection{}, "no node is known"},
		{"by labels", Selection{Selector: "pool=gpu"}, "no node has the labels of nodes.selector, which is pool=gpu"},
		{"by pods", Selection{Slinky: "hpc/a"}, "no node has a worker pod of nodes.slinky, which is hpc/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			made, err := Make(complete(t, Publication{Nodes: tt.nodes})[0], inputs.Inputs{}, Previous{})
			if err != nil {
				t.Fatal(err)
			}
			if made.Refused != "NothingToPublish" || !strings.HasSuffix(made.Message, ": there is nothing to write; "+tt.want) {
				t.Errorf("refused %q for %q, want %q", made.Refused, made.Message, tt.want)
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
			""}, // its GPUs are published
	} {
		t.Run(tt.name, func(t *testing.T) {
			pub := complete(t, Publication{Topology: tt.kind})[0]
			made, err := Make(pub, pub.Rules.Gather(tt.snap), Previous{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.left, tt.message}, []string{plandoc.LeftOut(made.Left), made.Message}); diff != "" {
				t.Errorf("left out, and why (-want +got):\n%s", diff)
			}
		})
	}
}
