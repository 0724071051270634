package publisher

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// TestPassChangesNothing makes passes that publish, hold, approve, roll back, repair and annotate. No
// pass changes the stored plan that it has recalled, or the snapshot. Each returns when to come back.
func TestPassChangesNothing(t *testing.T) {
	store := newMemory(racksWithout(t, 1))
	pubs := complete(t, Publication{})
	p := newPublisher(store, pubs)
	p.options.Recorder = store
	now := time.Now()
	l := newLoop(p.outlets, pubs, 0, now)
	text := func(doc *plandoc.Document, snap *inputs.Snapshot) string {
		plan, err := plandoc.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := json.Marshal(snap)
		if err != nil {
			t.Fatal(err)
		}
		return string(plan) + string(seen)
	}
	published := func() *plandoc.Published { return store.get("slurm/quoin-slurm") }
	for _, step := range []struct {
		name     string
		change   func()
		revision int
		held     string
	}{
		{"the first publication", func() {}, 1, ""},
		{"a rack joins", func() { store.snap = racks(t) }, 2, ""},
		{"many nodes move", func() { store.snap = racksMoved(t, 39) }, 2, "BigChange"},
		{"at rest", func() {}, 2, "BigChange"},
		{"somebody approves", func() {
			published().Annotations[plandoc.AnnotationApprove] = published().Annotations[plandoc.AnnotationHeld]
		}, 3, ""},
		{"somebody edits a file", func() { published().Files["topology.yaml"] += "#\n" }, 3, ""},
		{"somebody goes back", func() { published().Annotations[plandoc.AnnotationRollback] = "2" }, 4, "RolledBack"},
		{"to a revision that is not kept", func() { published().Annotations[plandoc.AnnotationRollback] = "9" }, 4, "RevisionUnknown"},
	} {
		step.change()
		for range 3 { // facts settle, or the pass begins again
			now = now.Add(10 * time.Minute)
			l.Touched = now.Add(-time.Minute)
			known, snap := l.archive.known, store.snap
			if known == nil {
				known = plandoc.New("default", "")
			}
			if _, err := store.Snapshot(t.Context()); err != nil { // which reads the annotations
				t.Fatal(err)
			}
			before := text(known, snap)
			if _, _, err := l.pass(t.Context(), now); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if diff := cmp.Diff(before, text(known, snap)); diff != "" {
				t.Errorf("%s: the pass changed what it was given (-before +after):\n%s", step.name, diff)
			}
		}
		d := store.plan(t)
		held, _, _ := strings.Cut(published().Annotations[plandoc.AnnotationHeldReason], ":")
		if d.Current.Number != step.revision || held != step.held {
			t.Errorf("%s: revision %d, held %q, want %d and %q", step.name, d.Current.Number, held, step.revision, step.held)
		}
		files, err := d.Current.Plan.Files()
		if err != nil || !maps.Equal(files, published().Own()) {
			t.Errorf("%s: %v, the files are not those of the stored plan", step.name, err)
		}
		if len(store.notes) == 0 {
			t.Errorf("%s: no Node is annotated", step.name)
		}
	}
}
