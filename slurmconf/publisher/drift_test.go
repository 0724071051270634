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

// TestEditedFilesDrift moves a node in the published file by hand, while the store refuses for a while that somebody
// puts it back: while nobody runs, or while a publisher runs and the node keeps its place, because its fabric is not known.
func TestEditedFilesDrift(t *testing.T) {
	for name, snap := range map[string]*inputs.Snapshot{
		"nobody runs": nil, "a publisher runs": racks(t, simulated.Fault{Node: "gb200-001", Fabric: "inProgress", Reboot: true}),
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemory(racks(t))
			pubs := complete(t, Publication{})
			inBubble(t, store, pubs, func() { store.pass(time.Hour) })
			good := store.get("slurm/quoin-slurm").Clone()
			edit := func() {
				p := store.published["slurm/quoin-slurm"]
				text := strings.Replace(p.Files["topology.yaml"], "nodes: gb200-[001-018]", "nodes: gb200-[002-018]", 1)
				p.Files["topology.yaml"] = strings.Replace(text, "nodes: gb200-[019-036]", "nodes: gb200-[001,019-036]", 1)
				store.refusesFiles = errors.New("configmaps is forbidden")
			}
			if snap == nil {
				edit()
			}
			inBubble(t, store, pubs, func() {
				store.pass(time.Hour)
				if snap != nil {
					store.change(snap)
					store.pass(time.Hour)
					store.edit(edit)
					store.pass(time.Hour)
				}
				wantDrift(t, store, "edited", firstNodes(1, nodestatus.ReasonPublishedDiffers), "the published files say nvl:nvl-", "cannot be written to slurm/quoin-slurm")
				store.edit(func() { store.refusesFiles = nil })
				store.pass(10 * time.Minute)
				wantDrift(t, store, "restored", map[string]string{})
				if diff := cmp.Diff(good.Files, store.get("slurm/quoin-slurm").Files); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
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

// BenchmarkDrift compares files that are held with a plan that has each of 10,008 nodes
// elsewhere.
func BenchmarkDrift(b *testing.B) {
	pub := complete(b, Publication{})[0]
	g := largeFacts(b, pub)
	made := makeOf(b, pub, g, Previous{})
	prev := previousOf(b, pub, made.Files)
	elsewhere := maps.Clone(made.Specs)
	for name := range elsewhere {
		elsewhere[name] += "x"
	}
	now := time.Now()
	for name, specs := range map[string]map[string]string{"none": made.Specs, "all": elsewhere} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			keeper := nodestatus.New(nodestatus.Options{}, nil, now, nil)
			for b.Loop() {
				found := nodestatus.Pass{Plan: made.Plan, Differences: differences(pub, &prev, specs, g.Nodes, heldFor(pub, "BigChange"))}
				if keeper.Found("default", &found, now); name == "all" && len(found.Differences) != len(specs) {
					b.Fatal(len(found.Differences))
				}
			}
		})
	}
}
