package publisher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestSmallStepsCountTogether moves few nodes at a time: what would be too much in one step
// is too much within an hour, also for the next publisher.
func TestSmallStepsCountTogether(t *testing.T) {
	store := newMemory(racks(t))
	pubs := complete(t, Publication{})
	reason := func() string { return store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason] }
	inBubble(t, store, pubs, func() {
		store.pass(time.Minute)
		store.change(racksMoved(t, 7))
		store.pass(5 * time.Minute)
		if reason() != "" || store.plan(t).Current.Number != 2 {
			t.Fatalf("7 of 72 nodes: held %q, revision %d", reason(), store.plan(t).Current.Number)
		}
		store.change(racksMoved(t, 14))
		store.pass(5 * time.Minute)
		if reason() != "" || store.plan(t).Current.Number != 3 {
			t.Fatalf("14 of 72 nodes: held %q, revision %d", reason(), store.plan(t).Current.Number)
		}
		store.change(racksMoved(t, 16))
		store.pass(5 * time.Minute)
		const want = "BigChange: 16 of 72 nodes would move or leave, with 14 that did within the last hour (holdWindow), more than 20 %"
		if !strings.HasPrefix(reason(), want) {
			t.Errorf("held %q, want %q", reason(), want)
		}
		store.approve()
		store.pass(time.Minute)
		store.change(racksMoved(t, 18))
		store.pass(5 * time.Minute)
		if reason() != "" || store.plan(t).Current.Number != 5 {
			t.Errorf("after the approval: held %q, revision %d", reason(), store.plan(t).Current.Number)
		}
	})
}

// TestFlappingNodeIsDamped moves a node back and forth every two minutes.
func TestFlappingNodeIsDamped(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Minute)
		for i := range 30 {
			faults := []simulated.Fault{{Node: "gb200-001", MoveTo: "gb200-019", Reboot: true}}
			if i%2 == 1 {
				faults = nil
			}
			store.change(racks(t, faults...))
			store.pass(2 * time.Minute)
		}
		if n := store.plan(t).Current.Number; n < 3 || n > 7 {
			t.Errorf("%d revisions in an hour for a node that flaps: %s", n, fmt.Sprint(store.plan(t).Moves))
		}
	})
}
