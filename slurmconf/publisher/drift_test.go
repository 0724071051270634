package publisher

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
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

// TestDriftDoesNotFlap lets a node come to be held and go again faster than that counts.
func TestDriftDoesNotFlap(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		for i := range 40 {
			store.change(racksMoved(t, 15+i%2))
			store.pass(45 * time.Second)
		}
		wantDrift(t, store, "after half an hour", firstNodes(15, nodestatus.ReasonPublishedDiffers))
		if store.conditionWrites != 72+15 {
			t.Errorf("%d writes, want one for each of 72 nodes and one for each of 15", store.conditionWrites)
		}
	})
}

// TestStableNodesDoNotDrift has nodes stay where they are published by the rules of
// stability, while files are held for others and when nothing is.
func TestStableNodesDoNotDrift(t *testing.T) {
	for name, others := range map[string]bool{"alone": false, "while files are held": true} {
		t.Run(name, func(t *testing.T) {
			store := newMemory(racks(t))
			inBubble(t, store, complete(t, Publication{}), func() {
				store.pass(time.Hour)
				faults := []simulated.Fault{{Node: "gb200-060", NoReport: true}, {Node: "gb200-061", Fabric: "inProgress", Reboot: true}, {Node: "gb200-062", Fabric: "notStarted"}}
				want := map[string]string{}
				if others {
					want = firstNodes(15, nodestatus.ReasonPublishedDiffers)
					for node := range want {
						faults = append(faults, simulated.Fault{Node: node, MoveTo: "gb200-019", Reboot: true})
					}
				}
				store.change(racks(t, faults...))
				store.pass(time.Hour)
				wantDrift(t, store, name, want)
			})
		})
	}
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
