package publisher

import (
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
