package publisher

import (
	"fmt"
	"testing"
	"time"
)

// baseOf is the base block size in the file.
func baseOf(t *testing.T, m *memory) int {
	t.Helper()
	_, topologies := fileOf(t, m)
	return topologies[0].Sizes[0]
}

// TestOtherSlurmsNodesAreNoPart has two Slurm clusters share each rack: a node that the other one
// has counts for no domain of this one.
func TestOtherSlurmsNodesAreNoPart(t *testing.T) {
	p := podsOn(72)
	for i := range 72 {
		if i%18 >= 9 {
			p.run("b", fmt.Sprintf("g%03d", i+1), fmt.Sprintf("gb200-%03d", i+1))
		}
	}
	store := newMemory(p.on(t))
	pubs := complete(t, Publication{SlurmNames: "slinky:a"}, Publication{Name: "b", SlurmNames: "slinky:b", ConfigMap: "quoin-slurm-b"})
	inBubble(t, store, pubs, func() {
		store.pass(10 * time.Minute)
		if base := baseOf(t, store); base != 9 {
			t.Errorf("base %d, want 9", base)
		}
	})
}
