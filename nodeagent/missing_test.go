package nodeagent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// TestMissingKeepsPlace loses a GPU of a node on which some GPUs are cut by MIG:
// its devices stay where Slurm has them, devices of one kind together.
func TestMissingKeepsPlace(t *testing.T) {
	var n topology.Node
	for i := range 4 {
		g := topology.GPU{Index: i, UUID: fmt.Sprintf("g%d", i), Minor: &i, Product: "NVIDIA A100"}
		if i%2 == 0 {
			g.MIG = []topology.MIGInstance{{UUID: fmt.Sprintf("m%d", i), Profile: "7g.40gb"}}
		}
		n.GPUs = append(n.GPUs, g)
	}
	all, err := InventoryOf(&n)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		lost int
		now  func(*topology.Node)
		want string
	}{
		{"a whole GPU", 1, func(*topology.Node) {}, "m0 m2 g1 g3"},
		{"a GPU with MIG", 0, func(*topology.Node) {}, "m0 m2 g1 g3"},
		{"another GPU in place of one that is there", 0, func(n *topology.Node) { n.GPUs[2].UUID = "new" }, "m0 m2 g1 new"},
		{"another GPU with the same MIG instances", 3, func(n *topology.Node) { n.GPUs[0].UUID, n.GPUs[0].MIG[0].UUID = "new", "newmig" }, "newmig m2 g1 g3"},
		{"another GPU without MIG", 3, func(n *topology.Node) {
			n.GPUs[0] = topology.GPU{UUID: "new", Minor: n.GPUs[0].Minor, Product: "NVIDIA A100"}
		}, "new g1 m2"},
		{"a GPU of another kind", 3, func(n *topology.Node) { n.GPUs[0].MIG, n.GPUs[0].Product = nil, "NVIDIA H100" }, "g0 g1 m2"},
		{"a GPU that was not there", 1, func(n *topology.Node) {
			minor := 7
			n.GPUs[0].UUID, n.GPUs[0].Minor, n.GPUs[0].MIG = "new", &minor, nil
		}, "m2 g3 new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := topology.Node{GPUs: append(append([]topology.GPU(nil), n.GPUs[:tt.lost]...), n.GPUs[tt.lost+1:]...)}
			for i := range now.GPUs {
				now.GPUs[i].MIG = slices.Clone(now.GPUs[i].MIG)
			}
			tt.now(&now)
			inv, err := InventoryOf(&now)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, e := range keepMissing(inv.Entries, append([]rundir.Entry(nil), all.Entries...)) {
				if e.GRESIndex != i {
					t.Errorf("entry %d has GRES index %d", i, e.GRESIndex)
				}
				got = append(got, e.UUID)
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("devices %s, want %s", got, tt.want)
			}
		})
	}
}
