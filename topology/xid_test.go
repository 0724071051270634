package topology_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func xidError(uuid, code string) topology.Problem {
	return topology.Problem{Reason: topology.ReasonXidError, Message: "GPU " + uuid + ": Xid " + code + " since the node's boot; see dmesg"}
}

func TestAddXids(t *testing.T) {
	n := &topology.Node{GPUs: []topology.GPU{{UUID: "GPU-a"}, {UUID: "GPU-b"}}, Problems: []topology.Problem{{Reason: "FactUnreadable"}}}
	n.AddXids("GPU-b", 119, 79)
	n.AddXids("GPU-b", 13, 79) // a program's own, and one known already
	n.AddXids("GPU-lost", 79)
	n.Problems = append(n.Problems, topology.Problem{Reason: "GPULost"})
	n.AddXids("GPU-a", 48)
	if diff := cmp.Diff([][]int{{48}, {13, 79, 119}}, [][]int{n.GPUs[0].Xids, n.GPUs[1].Xids}); diff != "" {
		t.Errorf("Xids (-want +got):\n%s", diff)
	}
	want := []topology.Problem{{Reason: "FactUnreadable"}, {Reason: "GPULost"},
		xidError("GPU-a", "48"), xidError("GPU-b", "79"), xidError("GPU-b", "119"), xidError("GPU-lost", "79")}
	if diff := cmp.Diff(want, n.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestKeepXids has a probe that was started again and knows less.
func TestKeepXids(t *testing.T) {
	node := func(boot string, uuids ...string) *topology.Node {
		n := &topology.Node{BootID: boot}
		for _, u := range uuids {
			n.GPUs = append(n.GPUs, topology.GPU{UUID: u})
		}
		return n
	}
	before := node("b1", "GPU-a", "GPU-b")
	before.AddXids("GPU-a", 31)
	before.AddXids("GPU-b", 79)
	before.AddXids("GPU-gone", 48)
	tests := []struct {
		name     string
		now      *topology.Node
		xids     []int
		problems []topology.Problem
	}{
		{"same boot", node("b1", "GPU-a", "GPU-b"), []int{31}, []topology.Problem{xidError("GPU-b", "79"), xidError("GPU-gone", "48")}},
		{"GPU lost meanwhile", node("b1", "GPU-a"), []int{31}, []topology.Problem{xidError("GPU-b", "79"), xidError("GPU-gone", "48")}},
		{"another boot", node("b2", "GPU-a", "GPU-b"), nil, nil},
		{"boot unknown", node("", "GPU-a", "GPU-b"), nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // the second time changes nothing
				tt.now.KeepXids(before)
				if diff := cmp.Diff(tt.xids, tt.now.GPUs[0].Xids); diff != "" {
					t.Errorf("Xids (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.problems, tt.now.Problems); diff != "" {
					t.Errorf("problems (-want +got):\n%s", diff)
				}
			}
		})
	}
	unknown := node("", "GPU-a")
	unknown.KeepXids(node(""))
	if unknown.Problems != nil {
		t.Errorf("problems %v", unknown.Problems)
	}
}
