package topology_test

import (
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

// TestCliqueString holds that the text of a clique costs one allocation: a pass over
// 10,000 nodes makes as many.
func TestCliqueString(t *testing.T) {
	c := topology.Clique{ClusterUUID: topology.UUID{0: 0x8a, 1: 0x61, 2: 0xc3, 3: 0x02, 7: 0x45, 15: 0xff}, ID: 4294967295}
	const want = "8a61c302-0000-0045-0000-0000000000ff.4294967295"
	if got := c.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { _ = c.String() }); n != 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}
