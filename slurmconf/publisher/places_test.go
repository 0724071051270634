package publisher

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// TestLeafBlocksRest publishes blocks of leaves, at first while labels are missing.
func TestLeafBlocksRest(t *testing.T) {
	whole := snapshotOf(sites.Open(t, "hgx-h100"))
	part := snapshotOf(sites.Open(t, "hgx-h100"))
	for i := range part.Nodes {
		maps.DeleteFunc(part.Nodes[i].Labels, func(key, _ string) bool { return !strings.HasPrefix(key, "nvidia.com/") })
		part.Reports[part.Nodes[i].Name].Tiers = nil
	}
	store := newMemory(part)
	inBubble(t, store, complete(t, Publication{BlocksBy: "leaf", Fabrics: "separate", SettleTime: publication.Default().SettleTime}), func() {
		store.pass(2 * time.Minute)
		if store.saves > 0 {
			t.Errorf("published before the switches were known:\n%s", store.get("slurm/quoin-slurm").Files["topology.yaml"])
		}
		store.change(whole)
		store.pass(2 * time.Minute)
		text := store.get("slurm/quoin-slurm").Files["topology.yaml"]
		if !strings.Contains(text, "- topology: leaf-spine-1\n  cluster_default: true\n  block:\n") || strings.Contains(text, "nvl") {
			t.Errorf("published\n%s", text)
		}
		store.change(part)
		store.pass(time.Hour)
		if diff := gocmp.Diff(text, store.get("slurm/quoin-slurm").Files["topology.yaml"]); diff != "" {
			t.Errorf("after the switches went missing (-was +is):\n%s", diff)
		}
	})
}

// spines returns racks of three nodes, r0-0 and on. Two spines take turns. The nodes of
// labelled racks have the labels of their switches.
func spines(n int, labelled func(rack int) bool) *inputs.Snapshot {
	snap := &inputs.Snapshot{Reports: map[string]*topology.Node{}}
	for r := range n {
		fabric := topology.Fabric{State: topology.FabricCompleted, ClusterUUID: topology.UUID{byte(r + 1)}, CliqueID: 1}
		labels := map[string]string{nodelabels.Count: "1"}
		if labelled(r) {
			labels[nodelabels.DefaultTiers[0]], labels[nodelabels.DefaultTiers[1]], labels[nodelabels.DefaultTiers[2]] = fmt.Sprintf("leaf-%d", r), fmt.Sprintf("spine-%d", r%2), "core"
		}
		for k := range 3 {
			name := fmt.Sprintf("r%d-%d", r, k)
			report := &topology.Node{Name: name, GPUs: []topology.GPU{{UUID: "GPU-" + name, Product: "NVIDIA GB200", Minor: new(int), Fabric: fabric}}}
			report.Domain = report.Joined()
			snap.Nodes, snap.Reports[name] = append(snap.Nodes, inputs.Node{Name: name, Labels: labels}), report
		}
	}
	return snap
}

// TestParentsNeverCome publishes racks whose switches nobody names after the longest
// wait: at first, and when one comes.
func TestParentsNeverCome(t *testing.T) {
	few := func(r int) bool { return r < 2 }
	store := newMemory(spines(3, few))
	inBubble(t, store, complete(t, Publication{ParentBlocks: 2, SettleTime: publication.Default().SettleTime}), func() {
		store.pass(4 * time.Minute)
		if store.saves != 0 {
			t.Fatal("published before the longest wait")
		}
		store.pass(2 * time.Minute)
		store.change(spines(4, few))
		store.pass(4 * time.Minute)
		if blocks := blocksIn(t, store); len(blocks) != 6 || blocks[1].Name != "spare-2" {
			t.Fatalf("blocks %v", blocks)
		}
		store.pass(2 * time.Minute)
	})
	if blocks := blocksIn(t, store); len(blocks) != 6 || hostlist.Compress(blocks[1].Nodes) != "r3-[0-2]" {
		t.Errorf("blocks %v, want that of r3 in the place of spare-2", blocks)
	}
}
