package publisher

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
)

// TestAnnotationsDrift has annotations stay that are not as the published files are:
// for another owner, and for what the store refuses.
func TestAnnotationsDrift(t *testing.T) {
	store := newMemory(racks(t))
	store.foreign["gb200-001"] = true
	store.notes["gb200-001"] = "default:theirs"
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(4 * time.Minute) // loadTimeout of it is no drift
		wantDrift(t, store, "on their way", map[string]string{})
		store.pass(time.Hour)
		want := firstNodes(1, nodestatus.ReasonAnnotationDiffers)
		wantDrift(t, store, "another's", want, "its annotation topology.slinky.slurm.net/spec says default:theirs, the published files say nvl:nvl-", "another writer owns the annotation")
		if store.notes["gb200-001"] != "default:theirs" || len(store.notes) != 72 {
			t.Errorf("gb200-001 has %q, %d nodes annotated", store.notes["gb200-001"], len(store.notes))
		}
		store.edit(func() {})
		store.rests(t, time.Hour)
		store.edit(func() {
			store.refusesNotes = errors.New("nodes is forbidden")
			store.notes["gb200-002"] = ""
		})
		store.pass(time.Hour)
		want["gb200-002"] = nodestatus.ReasonAnnotationDiffers
		wantDrift(t, store, "refused", want)
		if got := store.conditions["gb200-002"][nodestatus.ConditionDrift].Message; !strings.Contains(got, "says no place, the published files say nvl:") || !strings.Contains(got, "nodes is forbidden") {
			t.Errorf("message %q", got)
		}
		store.edit(func() {
			store.refusesNotes, store.foreign["gb200-001"] = nil, false
			store.notes["gb200-001"] = "" // its owner gave it up
		})
		store.pass(time.Hour)
		wantDrift(t, store, "all written", map[string]string{})
	})
}

// TestDriftOfAnnotationsStays ends passes before they look at the annotations. Another writer
// owns one of the annotations.
func TestDriftOfAnnotationsStays(t *testing.T) {
	store := newMemory(racks(t))
	store.foreign["gb200-030"] = true
	store.notes["gb200-030"] = "default:theirs"
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		before := store.conditionWrites
		store.edit(func() { store.refusesFiles = errors.New("i/o timeout") })
		store.change(racksMoved(t, 2))
		store.pass(time.Hour)
		want := firstNodes(2, nodestatus.ReasonPublishedDiffers)
		want["gb200-030"] = nodestatus.ReasonAnnotationDiffers
		if wantDrift(t, store, "not written", want); store.conditionWrites != before+2 {
			t.Errorf("%d writes for two nodes", store.conditionWrites-before)
		}
		store.edit(func() { store.refusesFiles, store.foreign["gb200-030"], store.notes["gb200-030"] = nil, false, "" })
		store.pass(time.Hour)
		wantDrift(t, store, "written", map[string]string{})
	})
}

// TestForeignAnnotationDrifts leaves a node without a place an annotation that names one.
func TestForeignAnnotationDrifts(t *testing.T) {
	snap := racks(t)
	snap.Nodes = append(snap.Nodes, inputs.Node{Name: "cpu-1"})
	store := newMemory(snap)
	store.foreign["cpu-1"] = true
	store.notes["cpu-1"] = "other:leaf9"
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		wantDrift(t, store, "another's", map[string]string{"cpu-1": nodestatus.ReasonAnnotationDiffers})
		for range 10 {
			store.edit(func() {})
			store.rests(t, time.Minute)
		}
		if store.notes["cpu-1"] != "other:leaf9" {
			t.Errorf("cpu-1 has %q", store.notes["cpu-1"])
		}
		store.edit(func() { delete(store.notes, "cpu-1") })
		store.pass(time.Hour)
		wantDrift(t, store, "gone", map[string]string{})
		if got := store.conditions["cpu-1"][nodestatus.ConditionDrift]; got.Reason != "Agrees" {
			t.Errorf("without a report: %+v, want that it agrees again", got)
		}
	})
}

// TestLeftAnnotationIsNoDrift lets a node leave the publication. Its annotation stays, because
// another writer owns it by now, and this publication no longer judges it.
func TestLeftAnnotationIsNoDrift(t *testing.T) {
	store := newMemory(labelled(t, "team", "red", "red", nil))
	inBubble(t, store, complete(t, Publication{Nodes: Selection{Selector: "team=red"}}), func() {
		store.pass(time.Hour)
		store.edit(func() { store.foreign["gb200-001"] = true })
		store.change(labelled(t, "team", "red", "red", map[string]string{"gb200-001": "blue"}))
		store.pass(time.Hour)
		store.edit(func() {})
		store.pass(time.Hour)
		if files := store.get("slurm/quoin-slurm").Files["topology.yaml"]; strings.Contains(files, "gb200-[001") || store.notes["gb200-001"] == "" {
			t.Fatalf("annotation %q, published\n%s", store.notes["gb200-001"], files)
		}
		wantDrift(t, store, "left", map[string]string{})
	})
}
