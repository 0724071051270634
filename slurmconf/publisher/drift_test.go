package publisher

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// racksMoved are the racks after the first nodes were put into the second one, where
// their agents have read it twice.
func racksMoved(t testing.TB, first int) *inputs.Snapshot {
	t.Helper()
	var faults []simulated.Fault
	for _, name := range nodeNames(1, first) {
		faults = append(faults, simulated.Fault{Node: name, MoveTo: "gb200-019", Reboot: true})
	}
	return racks(t, faults...)
}

// drifting are the nodes whose condition says that they drift, with its reason.
func drifting(store *memory) map[string]string {
	out := map[string]string{}
	for node, all := range store.conditions {
		if c := all[nodestatus.ConditionDrift]; c.True {
			out[node] = c.Reason
		}
	}
	return out
}

// firstNodes has one value for each of the first nodes of the racks.
func firstNodes(first int, value string) map[string]string {
	out := map[string]string{}
	for _, name := range nodeNames(1, first) {
		out[name] = value
	}
	return out
}

// wantDrift compares; says are words of gb200-001's message.
func wantDrift(t *testing.T, store *memory, when string, want map[string]string, says ...string) {
	t.Helper()
	if diff := cmp.Diff(want, drifting(store)); diff != "" {
		t.Errorf("%s: drifting (-want +got):\n%s", when, diff)
	}
	message := store.conditions["gb200-001"][nodestatus.ConditionDrift].Message
	for _, word := range says {
		if !strings.Contains(message, word) {
			t.Errorf("%s: %q is not in %q", when, word, message)
		}
	}
}

// TestHeldFilesDrift moves more nodes than may move unasked: their conditions say so
// for as long as the files are held, once, and also to the next leader.
func TestHeldFilesDrift(t *testing.T) {
	store := newMemory(racks(t))
	pubs := complete(t, Publication{SettleTime: publication.Default().SettleTime})
	held := firstNodes(15, nodestatus.ReasonPublishedDiffers)
	inBubble(t, store, pubs, func() {
		store.pass(time.Hour)
		store.change(racksMoved(t, 15))
		store.pass(100 * time.Second)
		wantDrift(t, store, "before it has stood", map[string]string{})
		store.pass(time.Minute)
		was, is := store.notes["gb200-001"], strings.Replace(store.notes["gb200-019"], ",fabric:leaf-02", ",fabric:", 1)
		wantDrift(t, store, "held", held, "the published files say "+was+", its facts say "+is, "publication default are held back for BigChange, see the annotation quoin.dev/held-reason of slurm/quoin-slurm")
		before := store.conditionWrites
		store.change(racksMoved(t, 16)) // another digest, and another number of nodes
		store.pass(time.Hour)
		held["gb200-016"] = nodestatus.ReasonPublishedDiffers
		if wantDrift(t, store, "one node more", held); store.conditionWrites != before+1 {
			t.Errorf("%d writes for one node more", store.conditionWrites-before)
		}
	})
	before := store.conditionWrites
	inBubble(t, store, pubs, func() {
		store.pass(time.Hour)
		if wantDrift(t, store, "the next leader", held); store.conditionWrites != before {
			t.Errorf("the next leader wrote %d conditions", store.conditionWrites-before)
		}
		store.approve()
		store.pass(time.Minute)
		wantDrift(t, store, "approved", map[string]string{})
		if got := store.conditions["gb200-001"][nodestatus.ConditionDrift]; got.Reason != "Agrees" || store.conditionWrites != before+16 {
			t.Errorf("%d writes, gb200-001 has %+v", store.conditionWrites-before, got)
		}
	})
}

// TestUnwrittenFilesDrift lets a few nodes move, which needs no approval, and has the
// store refuse files and annotations for a while.
func TestUnwrittenFilesDrift(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		store.edit(func() { store.refusesFiles = errors.New("configmaps is forbidden") })
		store.change(racksMoved(t, 2))
		store.pass(time.Minute)
		wantDrift(t, store, "first tries", map[string]string{})
		store.pass(time.Hour)
		wantDrift(t, store, "forbidden", firstNodes(2, nodestatus.ReasonPublishedDiffers), "cannot be written to slurm/quoin-slurm: configmaps is forbidden")
		before := store.conditionWrites
		store.edit(func() { store.refusesFiles = errors.New("i/o timeout") })
		store.pass(time.Hour)
		if store.conditionWrites != before {
			t.Errorf("%d writes while it was refused", store.conditionWrites-before)
		}
		store.edit(func() { store.refusesFiles = nil })
		store.pass(10 * time.Minute)
		wantDrift(t, store, "allowed again", map[string]string{})
		p := store.get("slurm/quoin-slurm")
		store.edit(func() {
			p.Files["topology.yaml"] = strings.Replace(p.Files["topology.yaml"], "[055-072]", "[055-071]", 1)
			store.refusesFiles = errors.New("configmaps is forbidden")
		})
		store.pass(time.Hour)
		if diff := cmp.Diff(map[string]string{"gb200-072": nodestatus.ReasonPublishedDiffers}, drifting(store)); diff != "" {
			t.Errorf("edited, and not to be restored (-want +got):\n%s", diff)
		}
	})
}

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
