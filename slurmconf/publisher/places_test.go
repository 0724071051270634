package publisher

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// TestUnplacedRest publishes a site whose H100 machines and nodes without GPUs are
// in blocks of their own, and lets it rest.
func TestUnplacedRest(t *testing.T) {
	store := newMemory(snapshotOf(openCluster(t, "mixed")))
	inBubble(t, store, complete(t, Publication{Unplaced: Unplaced{Block: "all"}, ParentBlocks: 4}), func() {
		store.pass(10 * time.Minute)
		first := store.get("slurm/quoin-slurm")
		const want = "      - block: unplaced-1\n        nodes: cpu-[1-4],hgx-[1-8]\n"
		if !strings.Contains(first.Files["topology.yaml"], want) || !strings.Contains(first.Files["topology.yaml"], "block_sizes: [18, 72]") || !strings.Contains(first.Files["topology.yaml"], "spare-3") {
			t.Errorf("published\n%s", first.Files["topology.yaml"])
		}
		if got := store.notes["hgx-3"]; got != "nvl:unplaced-1,fabric:leaf-h1" {
			t.Errorf("hgx-3 is annotated %q", got)
		}
		saves, annotated := store.saves, store.annotated
		store.change(store.snap)
		store.pass(time.Hour)
		if store.saves != saves || store.annotated != annotated {
			t.Errorf("%d writes more at rest", store.saves+store.annotated-saves-annotated)
		}
	})
}

// TestLeafBlocksRest publishes blocks of leaves, at first while labels are missing.
func TestLeafBlocksRest(t *testing.T) {
	whole := snapshotOf(openCluster(t, "hgx-h100"))
	part := snapshotOf(openCluster(t, "hgx-h100"))
	for i := range part.Nodes {
		maps.DeleteFunc(part.Nodes[i].Labels, func(key, _ string) bool { return !strings.HasPrefix(key, "nvidia.com/") })
		part.Reports[part.Nodes[i].Name].Tiers = nil
	}
	store := newMemory(part)
	inBubble(t, store, complete(t, Publication{BlocksBy: "leaf", FirstWait: DefaultPublication().FirstWait}), func() {
		store.pass(2 * time.Minute)
		if store.saves > 0 {
			t.Errorf("published before the switches were known:\n%s", store.get("slurm/quoin-slurm").Files["topology.yaml"])
		}
		store.change(whole)
		store.pass(2 * time.Minute)
		text := store.get("slurm/quoin-slurm").Files["topology.yaml"]
		if !strings.Contains(text, "- topology: leaf\n  cluster_default: true\n  block:\n") || strings.Contains(text, "nvl") {
			t.Errorf("published\n%s", text)
		}
		store.change(part)
		store.pass(time.Hour)
		if diff := cmp.Diff(text, store.get("slurm/quoin-slurm").Files["topology.yaml"]); diff != "" {
			t.Errorf("after the switches went missing (-was +is):\n%s", diff)
		}
	})
}

// TestDefaultStaysFabric lets blocks come beside a tree that stays the default.
func TestDefaultStaysFabric(t *testing.T) {
	whole := racks(t)
	for i := range whole.Nodes {
		delete(whole.Nodes[i].Labels, nodelabels.Clique)
	}
	store := newMemory(reported(whole, 0, 18))
	inBubble(t, store, complete(t, Publication{DefaultTopology: slurmconf.FabricTopology, FlatTopology: true, BaseBlockSize: 18}), func() {
		store.pass(time.Minute)
		store.change(whole)
		store.pass(10 * time.Minute)
		is := store.get("slurm/quoin-slurm")
		text := is.Files["topology.yaml"]
		if is.Annotations[AnnotationHeldReason] != "" || !strings.Contains(text, "- topology: nvl\n  cluster_default: false\n") ||
			!strings.Contains(text, "- topology: fabric\n  cluster_default: true\n") || !strings.HasSuffix(text, "- topology: flat\n  cluster_default: false\n  flat: true\n") {
			t.Errorf("held for %q, published\n%s", is.Annotations[AnnotationHeldReason], text)
		}
	})
}
