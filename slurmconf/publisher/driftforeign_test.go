package publisher

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
)

// TestRenamedIsNoDrift gives a node another name while files are held, or not to be
// restored, that somebody has edited: it is where it was.
func TestRenamedIsNoDrift(t *testing.T) {
	for _, running := range []bool{false, true} {
		t.Run(map[bool]string{false: "edited between leaders", true: "edited while one leads"}[running], func(t *testing.T) {
			store := newMemory(named(t, nil))
			pubs := complete(t, Publication{SlurmNames: "label:sn"})
			edit := func() {
				moveBack(store)
				store.refusesFiles = errors.New("configmaps is forbidden")
			}
			inBubble(t, store, pubs, func() { store.pass(time.Hour) })
			if !running {
				edit()
			}
			inBubble(t, store, pubs, func() {
				store.pass(time.Hour)
				if running {
					store.edit(edit)
				}
				store.change(named(t, map[string]string{"gb200-001": "other"}))
				store.pass(time.Hour)
				if diff := cmp.Diff(map[string]string{"gb200-072": nodestatus.ReasonPublishedDiffers}, drifting(store)); diff != "" {
					t.Errorf("drifting (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestOrderIsNoDrift has somebody put a topology first that is on its way out, where the
// file can't be restored: each node is where it should be.
func TestOrderIsNoDrift(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{Topology: "block"}), func() { store.pass(time.Hour) })
	inBubble(t, store, complete(t, Publication{Topology: "block", BlocksBy: "leaf", MaxChange: new(1.0)}), func() {
		store.pass(time.Minute)
		p := store.get("slurm/quoin-slurm")
		parts := strings.Split(p.Files["topology.yaml"], "- topology: ")
		if len(parts) != 3 || !strings.HasPrefix(parts[1], "leaf\n") {
			t.Fatal(p.Files["topology.yaml"])
		}
		store.edit(func() {
			p.Files["topology.yaml"] = strings.Join([]string{parts[0], parts[2], parts[1]}, "- topology: ")
			store.refusesFiles = errors.New("configmaps is forbidden")
		})
		store.pass(time.Hour)
		wantDrift(t, store, "not restored", map[string]string{})
	})
}
