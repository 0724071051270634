package publisher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// TestLabelAloneMovesNothing gives a node the label of another rack while no
// report can be read.
func TestLabelAloneMovesNothing(t *testing.T) {
	site := func(change func(*Snapshot)) *Snapshot {
		snap := racks(t)
		change(snap)
		for i := range snap.Nodes {
			if snap.Nodes[i].Name == "gb200-001" {
				snap.Nodes[i].Labels[nodelabels.Clique] = snap.Nodes[71].Labels[nodelabels.Clique]
			}
		}
		return snap
	}
	unreadable := func(prefix string) func(*Snapshot) {
		return func(snap *Snapshot) {
			for name := range snap.Reports {
				snap.Problems = append(snap.Problems, topology.Problem{Node: prefix + name, Reason: "ReportUnreadable"})
			}
			snap.Reports = nil
		}
	}
	for name, change := range map[string]func(*Snapshot){
		"ConfigMaps of another version": unreadable("quoin-node-"),
		"files of another version":      unreadable(""),
		"reports deleted":               func(snap *Snapshot) { snap.Reports = nil },
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemory(racks(t))
			inBubble(t, store, complete(t, Publication{}), func() {
				store.pass(time.Minute)
				before := store.get("slurm/quoin-slurm").Files
				store.change(site(change))
				store.pass(time.Hour)
				if diff := cmp.Diff(before, store.get("slurm/quoin-slurm").Files); diff != "" {
					t.Errorf("(-was +is):\n%s", diff)
				}
			})
		})
	}
	t.Run("no agent was ever there", func(t *testing.T) {
		without := racks(t)
		without.Reports = nil
		store := newMemory(without)
		inBubble(t, store, complete(t, Publication{}), func() {
			store.pass(time.Minute)
			store.change(site(func(snap *Snapshot) { snap.Reports = nil }))
			store.pass(time.Hour)
			if text := store.get("slurm/quoin-slurm").Files["topology.yaml"]; !strings.Contains(text, "gb200-[001,055-072]") {
				t.Errorf("the node stays although labels are all that is known:\n%s", text)
			}
		})
	})
}

// fabricOf is a site without NVLink domains whose nodes name so many switches,
// nearest first.
func fabricOf(tiers int, change ...func(name string, labels map[string]string)) *Snapshot {
	snap := &Snapshot{}
	for i := range 32 {
		name := fmt.Sprintf("n%02d", i)
		labels := map[string]string{nodelabels.Count: "8"}
		for tier, value := range []string{fmt.Sprintf("leaf-%d", i/8), fmt.Sprintf("spine-%d", i/16), "core"}[:tiers] {
			labels[nodelabels.DefaultTiers[tier]] = value
		}
		for _, c := range change {
			c(name, labels)
		}
		snap.Nodes = append(snap.Nodes, Node{Name: name, Labels: labels})
	}
	return snap
}

// TestTreeLosesItsTiers takes the labels of the upper tiers from all nodes, with
// and without a change of the configuration.
func TestTreeLosesItsTiers(t *testing.T) {
	store := newMemory(fabricOf(3))
	published := func() string { return store.get("slurm/quoin-slurm").Files["topology.yaml"] }
	inBubble(t, store, complete(t, Publication{Topology: "tree"}), func() {
		store.pass(time.Minute)
		before := published()
		if !strings.Contains(before, "core") {
			t.Fatalf("published:\n%s", before)
		}
		for tiers := range 3 {
			store.change(fabricOf(tiers))
			store.pass(time.Hour)
			if diff := cmp.Diff(before, published()); diff != "" {
				t.Errorf("with the labels of %d tiers (-was +is):\n%s", tiers, diff)
			}
		}
	})
	inBubble(t, store, complete(t, Publication{Topology: "tree", TierLabels: nodelabels.DefaultTiers[:2]}), func() {
		store.pass(time.Minute)
		if held := store.get("slurm/quoin-slurm").Annotations[AnnotationHeldReason]; !strings.HasPrefix(held, "BigChange: 32 of 32 nodes") {
			t.Errorf("the core was configured away: held reason %q", held)
		}
		store.approve()
		store.pass(time.Minute)
		if text := published(); strings.Contains(text, "core") || !strings.Contains(text, "spine-1") {
			t.Errorf("published:\n%s", text)
		}
	})
}

// TestNewParentsAreGuarded renames all spines: no node changes its leaf.
func TestNewParentsAreGuarded(t *testing.T) {
	store := newMemory(fabricOf(3))
	inBubble(t, store, complete(t, Publication{Topology: "tree"}), func() {
		store.pass(time.Minute)
		store.change(fabricOf(3, func(_ string, labels map[string]string) { labels[nodelabels.DefaultTiers[1]] += "b" }))
		store.pass(time.Minute)
		if held := store.get("slurm/quoin-slurm").Annotations[AnnotationHeldReason]; !strings.HasPrefix(held, "BigChange: 32 of 32 nodes") {
			t.Errorf("held reason %q", held)
		}
	})
}
