package publisher

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// TestBigChangeWaitsForApproval holds a change of many nodes. While it waits, an annotation that is lost comes back.
func TestBigChangeWaitsForApproval(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		before, notes := maps.Clone(store.get("slurm/quoin-slurm").Files), maps.Clone(store.notes)
		store.change(racksWithout(t, 20))
		store.pass(15 * time.Minute)
		held := store.get("slurm/quoin-slurm")
		if diff := cmp.Diff(before, held.Files); diff != "" {
			t.Fatalf("28 %% of the nodes left at once and the files changed:\n%s", diff)
		}
		if !strings.Contains(held.Annotations[plandoc.AnnotationHeldReason], "BigChange: 20 of 72 nodes") {
			t.Fatalf("held reason %q", held.Annotations[plandoc.AnnotationHeldReason])
		}
		store.edit(func() { store.notes["gb200-072"] = "" })
		store.pass(time.Hour)
		if diff := cmp.Diff(notes, store.notes); diff != "" {
			t.Errorf("annotations while held (-want +got):\n%s", diff)
		}
		store.approve()
		store.pass(time.Minute)
		after := store.get("slurm/quoin-slurm")
		if strings.Contains(after.Files["topology.yaml"], "gb200-[001") || after.Annotations[plandoc.AnnotationHeld] != "" || after.Annotations[plandoc.AnnotationApprove] != "" {
			t.Errorf("the approved change was not published, or its approval stayed: %v", after.Annotations)
		}
	})
}

// TestFlappingWhileHeld lets the size of a held change go up and down. The reason is written and said once a minute.
func TestFlappingWhileHeld(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{RemoveAfter: Duration{Duration: time.Nanosecond}}), func() {
		store.pass(time.Minute)
		saves := store.saves
		for i := range 40 {
			store.change(racksWithout(t, 20+i%2))
			store.pass(15 * time.Second)
		}
		said := strings.Count(strings.Join(store.events, " "), "BigChange")
		if n := store.saves - saves; n < 2 || n > 11 || said < 2 || said > 11 {
			t.Errorf("%d writes and %d events in ten minutes of held changes, want one a minute", n, said)
		}
		for _, left := range []int{30, 31} {
			store.change(racksWithout(t, left))
			store.pass(time.Second)
		}
		store.pass(time.Minute)
		if held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(held, "BigChange: 31 of 72 nodes") {
			t.Errorf("a minute after the last change, held %q", held)
		}
		store.approve()
		store.pass(time.Minute)
		if got := store.get("slurm/quoin-slurm"); got.Annotations[plandoc.AnnotationHeld] != "" || strings.Contains(got.Files["topology.yaml"], "gb200-[001") {
			t.Errorf("the digest that is shown does not let the change through: %v", got.Annotations)
		}
	})
}

func TestLastGoodStays(t *testing.T) {
	tests := []struct {
		name   string
		after  inputs.Snapshot
		reason string
	}{
		{"no node has a GPU", inputs.Snapshot{Nodes: []inputs.Node{{Name: "cpu"}}}, "NothingToPublish"},
		{"the store is empty", inputs.Snapshot{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemory(racks(t))
			all := 1.0
			inBubbleWith(t, store, complete(t, Publication{MaxChange: &all}), func(*Publisher) {}, func(p *Publisher) {
				store.pass(time.Minute)
				store.change(&tt.after)
				files := maps.Clone(store.get("slurm/quoin-slurm").Files)
				store.pass(time.Hour)
				got := store.get("slurm/quoin-slurm")
				if diff := cmp.Diff(files, got.Files); diff != "" {
					t.Errorf("files changed (-was +is):\n%s", diff)
				}
				if held := got.Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(held, tt.reason) || (held == "") != (tt.reason == "") {
					t.Errorf("held reason %q, want %q", held, tt.reason)
				}
				empty := testutil.ToFloat64(p.metrics.problems.WithLabelValues("default", ReasonStoreEmpty)) == 1
				if empty != (tt.reason == "") {
					t.Errorf("a finding says that the store is empty: %t", empty)
				}
			})
		})
	}
}
