package publisher

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// TestNamesOfSelectedPods has pods that a selector selects name the nodes. A node without its pod
// keeps its last name, also for a publisher that has just started.
func TestNamesOfSelectedPods(t *testing.T) {
	const selector = "slurm.nebius.ai/worker=true"
	snapshot := func(without func(i int) bool) *inputs.Snapshot {
		snap := racks(t)
		var all []inputs.Worker
		for i := 1; i <= 72; i++ {
			if !without(i) {
				pod := inputs.Pod{Namespace: "slurm", Name: fmt.Sprintf("worker-%d", i), Node: fmt.Sprintf("gb200-%03d", i)}
				all = append(all, pod.Selected(selector))
			}
		}
		snap.AddWorkers(all)
		return snap
	}
	store := newMemory(snapshot(func(int) bool { return false }))
	pubs := complete(t, Publication{SlurmNames: "pod:" + selector})
	var before string
	unchanged := func(what string) {
		t.Helper()
		if diff := cmp.Diff(before, topologyOf(store)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if reason := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; reason != "" {
			t.Errorf("%s: held: %s", what, reason)
		}
	}
	inBubble(t, store, pubs, func() {
		store.pass(10 * time.Minute)
		before = topologyOf(store)
		wantNodes(t, store, "first", "worker-[1-18]")
		store.change(snapshot(func(i int) bool { return i%2 == 0 }))
		store.pass(time.Hour)
		unchanged("half of the pods are gone")
	})
	inBubble(t, store, pubs, func() {
		store.pass(time.Hour)
		unchanged("another publisher")
		store.change(snapshot(func(int) bool { return true }))
		store.pass(time.Hour)
		unchanged("all pods are gone")
		store.change(snapshot(func(int) bool { return false }))
		store.pass(time.Hour)
		unchanged("all pods are back")
	})
}
