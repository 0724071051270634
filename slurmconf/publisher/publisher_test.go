package publisher

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestFlappingWritesNothing lets 5 % of the nodes lose their report, their
// label or their fabric state, again and again.
func TestFlappingWritesNothing(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(5 * time.Minute)
		saves := store.saves
		for round := range 200 {
			faults := []simulated.Fault{{NoReport: true}, {Fabric: "inProgress"}, {Fabric: "notStarted", Reboot: true}, {Absent: true}}
			for k := range faults {
				faults[(round+k)%4].Node = fmt.Sprintf("gb200-%03d", (round*7+k*13)%72+1)
			}
			store.change(racks(t, faults...))
			store.pass(30 * time.Second)
		}
		if store.saves != saves {
			t.Errorf("flapping nodes made %d writes, want none", store.saves-saves)
		}
	})
}

func TestDeletedPublicationIsRestored(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Minute)
		store.change(racks(t, simulated.Fault{Node: "gb200-003", Fabric: "inProgress"}))
		store.pass(time.Minute)
		want := store.get("slurm/quoin-slurm").Clone()
		restored := func() {
			t.Helper()
			store.pass(2 * time.Minute)
			got := store.get("slurm/quoin-slurm")
			want.Annotations[plandoc.AnnotationPublished] = got.Annotations[plandoc.AnnotationPublished] // slurmctld has to load the new files
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(plandoc.Published{}, "Version")); diff != "" {
				t.Errorf("(-before +restored):\n%s", diff)
			}
		}
		store.edit(func() { delete(store.published, "slurm/quoin-slurm") })
		restored()
		store.edit(func() { clear(store.published["slurm/quoin-slurm"].Files) })
		restored()
		store.edit(func() {
			clear(store.published["slurm/quoin-slurm"].Files)
			store.refuses = errors.New("too many requests")
		})
		store.pass(time.Minute)
		store.edit(func() {
			delete(store.published, "slurm/quoin-slurm")
			store.refuses = nil
		})
		restored()
	})
}
