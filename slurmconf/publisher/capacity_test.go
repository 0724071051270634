package publisher

import (
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

// TestCapacityGoesMissing has kubelets, and nothing else, say which nodes have
// GPUs, and device plugins that are restarted: published nodes stay.
func TestCapacityGoesMissing(t *testing.T) {
	site := func(gpus func(i int) int) *inputs.Snapshot {
		snap := fabricOf(2, func(_ string, labels map[string]string) { delete(labels, "nvidia.com/gpu.count") })
		for i := range snap.Nodes {
			snap.Nodes[i].GPUs = gpus(i)
		}
		return snap
	}
	store := newMemory(site(func(i int) int { return i % 16 }))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(5 * time.Minute)
		text, gres := topologyOf(store), store.get("slurm/quoin-slurm").Files["gres.conf"]
		if !strings.Contains(text, "nodes: n[01-07]\n") || !strings.Contains(text, "nodes: n[17-23]\n") || !strings.Contains(gres, "NodeName=n[01-15,17-31] AutoDetect=nvidia") {
			t.Errorf("want all but n00 and n16:\n%s\n%s", text, gres)
		}
		for round := range 3 {
			store.change(site(func(i int) int { return i % 16 * (i % (round + 2)) }))
			store.rests(t, time.Hour)
		}
	})
}
