package publisher

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// TestLabelAloneMovesNothing gives a node the label of another rack while no
// report can be read.
func TestLabelAloneMovesNothing(t *testing.T) {
	site := func(change func(*inputs.Snapshot)) *inputs.Snapshot {
		snap := racks(t)
		change(snap)
		for i := range snap.Nodes {
			if snap.Nodes[i].Name == "gb200-001" {
				snap.Nodes[i].Labels[topology.CliqueLabel] = snap.Nodes[71].Labels[topology.CliqueLabel]
			}
		}
		return snap
	}
	unreadable := func(snap *inputs.Snapshot) {
		for name := range snap.Reports {
			snap.Problems = append(snap.Problems, topology.Finding{Subject: topology.Subject{Node: name}, Reason: "ReportUnreadable"})
		}
		snap.Reports = nil
	}
	for name, change := range map[string]func(*inputs.Snapshot){
		"reports of another version": unreadable,
		"reports deleted":            func(snap *inputs.Snapshot) { snap.Reports = nil },
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
			store.change(site(func(snap *inputs.Snapshot) { snap.Reports = nil }))
			store.pass(time.Hour)
			if text := store.get("slurm/quoin-slurm").Files["topology.yaml"]; !strings.Contains(text, "gb200-[001,055-072]") {
				t.Errorf("the node stays although labels are all that is known:\n%s", text)
			}
		})
	})
}

// fabricOf is a site without NVLink domains whose nodes name so many switches,
// nearest first.
func fabricOf(tiers int, change ...func(name string, labels map[string]string)) *inputs.Snapshot {
	snap := &inputs.Snapshot{}
	for i := range 32 {
		name := fmt.Sprintf("n%02d", i)
		labels := map[string]string{nodelabels.Count: "8"}
		for tier, value := range []string{fmt.Sprintf("leaf-%d", i/8), fmt.Sprintf("spine-%d", i/16), "core"}[:tiers] {
			labels[nodelabels.DefaultTiers[tier]] = value
		}
		for _, c := range change {
			c(name, labels)
		}
		snap.Nodes = append(snap.Nodes, inputs.Node{Name: name, Labels: labels})
	}
	return snap
}

// TestTreeLosesItsTiers takes the labels of the upper tiers from all nodes, with
// and without a change of the configuration.
func TestTreeLosesItsTiers(t *testing.T) {
	store := newMemory(fabricOf(3))
	text := func() string { return store.get("slurm/quoin-slurm").Files["topology.yaml"] }
	inBubble(t, store, complete(t, Publication{Topology: "tree"}), func() {
		store.pass(time.Minute)
		before := text()
		if !strings.Contains(before, "core") {
			t.Fatalf("published:\n%s", before)
		}
		for tiers := range 3 {
			store.change(fabricOf(tiers))
			store.pass(time.Hour)
			if diff := cmp.Diff(before, text()); diff != "" {
				t.Errorf("with the labels of %d tiers (-was +is):\n%s", tiers, diff)
			}
		}
	})
	inBubble(t, store, complete(t, Publication{Topology: "tree", TierLabels: nodelabels.DefaultTiers[:2]}), func() {
		store.pass(time.Minute)
		if held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(held, "BigChange: 32 of 32 nodes") {
			t.Errorf("the core was configured away: held reason %q", held)
		}
		store.approve()
		store.pass(time.Minute)
		if now := text(); strings.Contains(now, "core") || !strings.Contains(now, "spine-1") {
			t.Errorf("published:\n%s", now)
		}
	})
}

// TestUnitsStayWhileNamed moves all nodes of a leaf, by and by, to another: the
// old one, which is to be forgotten, leaves the file after the last annotation.
func TestUnitsStayWhileNamed(t *testing.T) {
	const key = "slurm/quoin-slurm"
	recabled := fabricOf(2, func(_ string, labels map[string]string) {
		if labels[nodelabels.DefaultTiers[0]] == "leaf-3" {
			labels[nodelabels.DefaultTiers[0]] = "leaf-9"
		}
	})
	for _, format := range []string{"yaml", "conf"} {
		t.Run(format, func(t *testing.T) {
			store := newMemory(fabricOf(2))
			inBubble(t, store, complete(t, Publication{Topology: "tree", Format: format, MaxChange: new(1.0), ForgetSwitches: []string{"leaf-3"}}), func() {
				leaves := func() (old, renewed bool) {
					text := store.get(key).Files["topology."+format]
					prev, err := slurmconf.ReadPlan("topology."+format, []byte(text))
					if err != nil {
						t.Fatal(err)
					}
					for _, s := range prev.Switches() {
						old, renewed = old || s.Name == "leaf-3", renewed || s.Name == "leaf-9"
						if s.Name == "spine-1" && !slices.Contains(s.Children, "leaf-9") && slices.Contains(s.Children, "leaf-3") && old && renewed {
							t.Errorf("the new leaf is not below the spine:\n%s", text)
						}
					}
					return old, renewed
				}
				store.pass(5 * time.Minute)
				if spec := store.notes["n31"]; !strings.HasSuffix(spec, ":leaf-3") {
					t.Fatalf("annotation %q", spec)
				}
				store.edit(func() { store.foreign["n31"] = true })
				store.change(recabled)
				store.pass(time.Minute)
				if old, renewed := leaves(); !old || !renewed || !strings.HasSuffix(store.notes["n30"], ":leaf-3") {
					t.Fatalf("before the annotations: leaf-3 %t, leaf-9 %t:\n%s", old, renewed, store.get(key).Files["topology."+format])
				}
				store.pass(10 * time.Minute)
				store.edit(func() {}) // the watch sees the annotations
				store.pass(time.Minute)
				if old, _ := leaves(); !old || !strings.HasSuffix(store.notes["n30"], ":leaf-9") || !strings.HasSuffix(store.notes["n31"], ":leaf-3") {
					t.Fatalf("one annotation still names leaf-3, which is there: %t; annotations %v", old, store.notes)
				}
				store.edit(func() {
					store.foreign["n31"] = false
					store.notes["n31"] = strings.Replace(store.notes["n31"], "leaf-3", "leaf-9", 1)
				})
				store.pass(time.Minute)
				if old, _ := leaves(); !old {
					t.Error("leaf-3 has gone before Slinky could tell Slurm of the annotation")
				}
				store.pass(2 * time.Minute)
				if old, renewed := leaves(); old || !renewed {
					t.Errorf("no annotation names leaf-3: it is there %t, leaf-9 %t", old, renewed)
				}
				store.edit(func() {})
				store.rests(t, time.Hour)
			})
		})
	}
}
