package publisher

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
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

// TestApprovedDoesNotWait approves a change within the time between two publications.
func TestApprovedDoesNotWait(t *testing.T) {
	store := newMemory(racks(t))
	pub := Publication{RemoveAfter: Duration{Duration: time.Second}}
	inBubble(t, store, spacedBy(time.Hour, complete(t, pub)), func() {
		store.pass(time.Minute)
		store.change(racksWithout(t, 20))
		store.pass(time.Minute)
		store.approve()
		store.pass(time.Minute)
		if got := store.get("slurm/quoin-slurm"); strings.Contains(got.Files["topology.yaml"], "gb200-[001") {
			t.Errorf("an approved change waits: %v", got.Annotations)
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

// TestHeldIsSaidOnce holds a change while the store refuses to take the reason.
func TestHeldIsSaidOnce(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Minute)
		store.edit(func() { store.refuses = errors.New("forbidden") })
		store.change(racksWithout(t, 20))
		store.pass(time.Hour)
		store.edit(func() { store.refuses = nil })
		store.pass(time.Hour)
		if diff := cmp.Diff([]string{"Published", "BigChange"}, store.events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(held, "BigChange: ") {
			t.Errorf("held reason %q", held)
		}
	})
}

func TestGresChangesAreGuarded(t *testing.T) {
	site := func(product string) *inputs.Snapshot {
		return withGPUs(racks(t), func(_ string, g *topology.GPU) { g.Product = product })
	}
	withAlone := site("NVIDIA GB200") // with a node in gres.conf that is in no topology
	minor := 0
	withAlone.Nodes = append(withAlone.Nodes, inputs.Node{Name: "alone"})
	withAlone.Reports["alone"] = &topology.Node{Name: "alone", GPUs: []topology.GPU{{UUID: "GPU-a", Minor: &minor, Product: "NVIDIA L4",
		Fabric: topology.Fabric{State: topology.FabricNotSupported}}}}
	store := newMemory(withAlone)
	gres := func() string { return store.get("slurm/quoin-slurm").Files["gres.conf"] }
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Minute)
		before := gres()
		if !strings.Contains(before, "NodeName=alone Name=gpu Type=l4") {
			t.Errorf("gres.conf is\n%s", before)
		}
		store.change(site("NVIDIA GB200"))
		store.pass(5 * time.Minute)
		if got := gres(); got != before {
			t.Errorf("a node left gres.conf at once:\n%s", got)
		}
		store.pass(time.Hour)
		if got := gres(); strings.Contains(got, "alone") {
			t.Errorf("a node that is gone stays in gres.conf for ever:\n%s", got)
		}
		before = gres()
		store.change(site("NVIDIA GB200 SUPER"))
		store.pass(time.Hour)
		held := store.get("slurm/quoin-slurm")
		if gres() != before || !strings.Contains(held.Annotations[plandoc.AnnotationHeldReason], "BigChange: the lines of 72 of 72 nodes in gres.conf") {
			t.Errorf("held reason %q, gres.conf\n%s", held.Annotations[plandoc.AnnotationHeldReason], gres())
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

// TestSeveralTopologiesWait adds the labels of two fabrics to a site with one published
// topology. The change waits for an approval, however many nodes may change at once, because
// partitions name the topology. After the approval annotations follow the file, and nothing is
// written at rest.
func TestSeveralTopologiesWait(t *testing.T) {
	fabrics := func(n int) *inputs.Snapshot {
		snap := spines(6, func(int) bool { return n > 0 })
		for i := range snap.Nodes {
			labels := snap.Nodes[i].Labels
			if root := nodelabels.DefaultTiers[2]; labels[root] != "" {
				rack := int(snap.Nodes[i].Name[1] - '0')
				labels[nodelabels.DefaultTiers[1]], labels[root] = fmt.Sprintf("spine-%d", rack%n), fmt.Sprintf("core%d", rack%n)
			}
		}
		return snap
	}
	store := newMemory(fabrics(0))
	names := func() string {
		_, topologies := fileOf(t, store)
		return strings.Join(namesOf(topologies), " ")
	}
	inBubble(t, store, complete(t, Publication{MaxChange: new(1.0), Fabrics: "separate"}), func() {
		store.pass(5 * time.Minute)
		store.change(fabrics(2))
		store.pass(5 * time.Minute)
		held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]
		if want := "PartitionName=nvl-core1 Topology=nvl-core1 Nodes=r1-[0-2],r3-[0-2],r5-[0-2]"; !strings.HasPrefix(held, "TopologiesChange: ") || !strings.Contains(held, want) {
			t.Fatalf("held %q, want the line %q", held, want)
		}
		if got := names(); got != "nvl fabric" {
			t.Fatalf("the file has %s", got)
		}
		store.approve()
		for range 30 {
			store.pass(30 * time.Second)
			wantKnown(t, store)
			store.edit(func() {})
		}
		if got := names(); got != "nvl-core0 nvl-core1 fabric" || !strings.HasPrefix(store.notes["r1-0"], "nvl-core1:") {
			t.Errorf("approved, the file has %s, and r1-0 is annotated %q", got, store.notes["r1-0"])
		}
		store.rests(t, time.Hour)
	})
}
