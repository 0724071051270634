package publisher

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// racksWithAnother are the racks without the first of their nodes, where the annotation
// of gb200-030 is another's, and have been published and found to be so.
func racksWithAnother(t *testing.T) *memory {
	t.Helper()
	store := newMemory(racksWithout(t, 1))
	store.foreign["gb200-030"] = true
	store.notes["gb200-030"] = "default:theirs"
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		wantDrift(t, store, "before the restart", map[string]string{"gb200-030": nodestatus.ReasonAnnotationDiffers})
	})
	return store
}

// TestAnnotationDriftOutlivesPublisher has the next publisher not come to a Node's
// annotation for a while, that another writes: its condition stays as it is.
func TestAnnotationDriftOutlivesPublisher(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(t *testing.T, store *memory)
		more   map[string]string // that drifts too
		writes int               // of other nodes
	}{
		{"the first pass publishes", func(t *testing.T, store *memory) { store.snap = racks(t) }, nil, 1},
		{"published a moment ago", func(_ *testing.T, store *memory) {
			store.published["slurm/quoin-slurm"].Annotations[plandoc.AnnotationPublished] = time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
		}, nil, 0},
		{"edited files are not written", func(_ *testing.T, store *memory) {
			moveBack(store)
			store.refusesFiles = errors.New("configmaps is forbidden")
		}, map[string]string{"gb200-072": nodestatus.ReasonPublishedDiffers}, 1},
		{"files are not written", func(t *testing.T, store *memory) {
			store.snap = racks(t)
			store.refusesFiles = errors.New("configmaps is forbidden")
		}, map[string]string{"gb200-001": nodestatus.ReasonPublishedDiffers}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := racksWithAnother(t)
			writes, said := 0, store.conditions["gb200-030"][nodestatus.ConditionDrift]
			inBubbleWith(t, store, complete(t, Publication{}), func(*Publisher) {
				time.Sleep(2 * time.Hour)
				tt.before(t, store)
				writes = store.conditionWrites
			}, func(*Publisher) {
				for range 60 {
					store.edit(func() {})
					store.pass(10 * time.Second)
					if is := store.conditions["gb200-030"][nodestatus.ConditionDrift]; is != said {
						t.Fatalf("after the restart it is %+v", is)
					}
				}
				want := map[string]string{"gb200-030": nodestatus.ReasonAnnotationDiffers}
				maps.Copy(want, tt.more)
				if diff := cmp.Diff(want, drifting(store)); diff != "" || store.conditionWrites != writes+tt.writes {
					t.Errorf("%d writes, drifting (-want +got):\n%s", store.conditionWrites-writes, diff)
				}
				store.edit(func() {
					store.refusesFiles, store.foreign["gb200-030"], store.notes["gb200-030"] = nil, false, ""
				})
				store.pass(time.Hour)
				wantDrift(t, store, "all is well", map[string]string{})
			})
		})
	}
}

// moveBack takes the last node out of the published file.
func moveBack(store *memory) {
	p := store.published["slurm/quoin-slurm"]
	p.Files["topology.yaml"] = strings.Replace(p.Files["topology.yaml"], "[055-072]", "[055-071]", 1)
}

// TestNoAnnotationNoDrift has the next publisher write annotations no more, or another
// publication than the one that is held: neither has anything to say of the annotation.
func TestNoAnnotationNoDrift(t *testing.T) {
	for name, pubs := range map[string][]Publication{
		"writes none": {{Annotate: new(false)}},
		"another's":   {{Name: "first", ConfigMap: "first"}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			store := racksWithAnother(t)
			inBubbleWith(t, store, complete(t, pubs...), func(*Publisher) {
				time.Sleep(2 * time.Hour)
				moveBack(store)
				store.refusesPlace = "slurm/quoin-slurm"
				store.foreign["gb200-030"] = false
			}, func(*Publisher) {
				store.pass(time.Hour)
				if diff := cmp.Diff(map[string]string{"gb200-072": nodestatus.ReasonPublishedDiffers}, drifting(store)); diff != "" {
					t.Errorf("drifting (-want +got):\n%s", diff)
				}
			})
		})
	}
}
