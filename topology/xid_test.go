package topology_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func xidError(uuid, code string) topology.Finding {
	return topology.Finding{Reason: topology.ReasonXidError, Message: "GPU " + uuid + ": Xid " + code + " since the node's boot; see dmesg"}
}

func TestAddXids(t *testing.T) {
	n := &topology.Node{GPUs: []topology.GPU{{UUID: "GPU-a"}, {UUID: "GPU-b"}}, Problems: []topology.Finding{{Reason: "FactUnreadable"}}}
	n.AddXids("GPU-b", 119, 79)
	n.AddXids("GPU-b", 13, 79) // a program's own, and one known already
	n.AddXids("GPU-lost", 79)
	n.Problems = append(n.Problems, topology.Finding{Reason: "GPULost"})
	n.AddXids("GPU-a", 48)
	if diff := cmp.Diff([][]int{{48}, {13, 79, 119}}, [][]int{n.GPUs[0].Xids, n.GPUs[1].Xids}); diff != "" {
		t.Errorf("Xids (-want +got):\n%s", diff)
	}
	want := []topology.Finding{{Reason: "FactUnreadable"}, {Reason: "GPULost"},
		xidError("GPU-a", "48"), xidError("GPU-b", "79"), xidError("GPU-b", "119"), xidError("GPU-lost", "79")}
	if diff := cmp.Diff(want, n.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
