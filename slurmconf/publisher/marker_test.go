package publisher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// wantMarks checks the labels of a node.
func wantMarks(t *testing.T, store *memory, when, node string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, store.marks.values[node]); diff != "" {
		t.Errorf("%s: %s (-want +got):\n%s", when, node, diff)
	}
}

// labelsOf are the labels of a node of the racks.
func labelsOf(store *memory, node string, rack int) map[string]string {
	clique, _ := store.snap.Reports[node].GPUs[0].Fabric.Clique()
	return map[string]string{plandoc.LabelBlock: fmt.Sprintf("nvl-%.8s-%d", clique.String(), rack), plandoc.LabelLeaf: fmt.Sprintf("leaf-%02d", rack), plandoc.LabelSpine: "spine-1",
		plandoc.LabelClique: clique.String()}
}

// TestLabels labels racks together with the annotation, keeps the labels as they are to be, and takes
// them away when that is turned off.
func TestLabels(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{Labels: true}), func() {
		store.pass(119 * time.Second)
		if len(store.marks.values) != 0 || store.saves != 1 {
			t.Error("labelled before slurmctld had the time to load the files")
		}
		store.pass(time.Hour)
		if len(store.marks.values) != 72 || store.annotated != 72 {
			t.Errorf("%d nodes labelled, by %d writes", len(store.marks.values), store.annotated)
		}
		wantMarks(t, store, "first", "gb200-001", labelsOf(store, "gb200-001", 1))
		wantMarks(t, store, "first", "gb200-072", labelsOf(store, "gb200-072", 4))
		store.rests(t, 24*time.Hour)
		store.edit(func() {})
		store.rests(t, time.Hour)
		// One that somebody removed comes back. One that somebody else owns stays.
		store.edit(func() {
			store.marks.set("gb200-005", plandoc.LabelLeaf, "", "")
			store.marks.set("gb200-001", plandoc.LabelLeaf, "theirs", "kubectl-label")
			store.marks.set("gb200-007", "quoin.dev/agent", "false", "kubectl-label")
			store.marks.changed = map[string]int{"gb200-005": 3}
		})
		store.pass(5 * time.Minute)
		wantMarks(t, store, "removed", "gb200-005", labelsOf(store, "gb200-005", 1))
		theirs := labelsOf(store, "gb200-001", 1)
		theirs[plandoc.LabelLeaf] = "theirs"
		wantMarks(t, store, "another's", "gb200-001", theirs)
		wantDrift(t, store, "another's", map[string]string{"gb200-001": nodestatus.ReasonLabelsDiffer}, "its labels say quoin.dev/leaf=theirs, the published files say quoin.dev/leaf=leaf-01: it cannot be written",
			`another writer owns the label quoin.dev/leaf: conflict with "kubectl-label"`)
		if store.annotated != 72+4 || !slices.Contains(store.events, "AnnotationConflict") {
			t.Errorf("%d writes of Nodes, events %v", store.annotated, store.events)
		}
		store.edit(func() {})
		store.rests(t, time.Hour)
		if strings.Count(strings.Join(store.events, " "), "AnnotationConflict") != 1 {
			t.Errorf("events %v", store.events)
		}
	})
	notes, before := maps.Clone(store.notes), store.annotated
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		wantMarks(t, store, "turned off", "gb200-002", map[string]string{})
		wantMarks(t, store, "turned off", "gb200-001", map[string]string{plandoc.LabelLeaf: "theirs"})
		wantMarks(t, store, "turned off", "gb200-007", map[string]string{"quoin.dev/agent": "false"})
		wantDrift(t, store, "turned off", map[string]string{})
		if diff := cmp.Diff(notes, store.notes); diff != "" || store.annotated != before+72 {
			t.Errorf("%d writes to take the labels of 72 nodes away, annotations (-before +after):\n%s", store.annotated-before, diff)
		}
		store.edit(func() {})
		store.rests(t, time.Hour)
	})
}
