package publisher

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// racksMoved are the racks after the first nodes were put into the second one, where
// their agents have read it twice.
func racksMoved(t testing.TB, first int) *Snapshot {
	t.Helper()
	var faults []simulated.Fault
	for i := range first {
		faults = append(faults, simulated.Fault{Node: fmt.Sprintf("gb200-%03d", i+1), MoveTo: "gb200-019", Reboot: true})
	}
	return racks(t, faults...)
}

// drifting are the nodes whose condition says that they drift, with its reason.
func drifting(store *memory) map[string]string {
	out := map[string]string{}
	for node, all := range store.conditions {
		if c := all[ConditionDrift]; c.True {
			out[node] = c.Reason
		}
	}
	return out
}

// sameReason is what drifting returns of the first racks' nodes.
func sameReason(first int, reason string) map[string]string {
	out := map[string]string{}
	for i := range first {
		out[fmt.Sprintf("gb200-%03d", i+1)] = reason
	}
	return out
}

// wantDrift compares; says are words of gb200-001's message.
func wantDrift(t *testing.T, store *memory, when string, want map[string]string, says ...string) {
	t.Helper()
	if diff := cmp.Diff(want, drifting(store)); diff != "" {
		t.Errorf("%s: drifting (-want +got):\n%s", when, diff)
	}
	message := store.conditions["gb200-001"][ConditionDrift].Message
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
	pubs := complete(t, Publication{})
	held := sameReason(15, ReasonPublishedDiffers)
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
		held["gb200-016"] = ReasonPublishedDiffers
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
		if got := store.conditions["gb200-001"][ConditionDrift]; got.Reason != "Agrees" || store.conditionWrites != before+16 {
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
		wantDrift(t, store, "after half an hour", sameReason(15, ReasonPublishedDiffers))
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
					want = sameReason(15, ReasonPublishedDiffers)
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

// TestEditedFilesDrift moves a node in the published file by hand, while nobody runs who
// would put it back.
func TestEditedFilesDrift(t *testing.T) {
	store := newMemory(racks(t))
	pubs := complete(t, Publication{})
	inBubble(t, store, pubs, func() { store.pass(time.Hour) })
	good := store.get("slurm/quoin-slurm").clone()
	inBubble(t, store, pubs, func() {
		p := store.get("slurm/quoin-slurm")
		text := strings.Replace(p.Files["topology.yaml"], "nodes: gb200-[001-018]", "nodes: gb200-[002-018]", 1)
		p.Files["topology.yaml"] = strings.Replace(text, "nodes: gb200-[019-036]", "nodes: gb200-[001,019-036]", 1)
		store.pass(time.Hour)
		wantDrift(t, store, "edited", sameReason(1, ReasonPublishedDiffers), "the published files say nvl:nvl-", "held back for PublishedEdited")
		p = store.get("slurm/quoin-slurm")
		store.edit(func() { p.Files = maps.Clone(good.Files) })
		store.pass(time.Minute)
		wantDrift(t, store, "restored", map[string]string{})
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
		wantDrift(t, store, "forbidden", sameReason(2, ReasonPublishedDiffers), "cannot be written to slurm/quoin-slurm: configmaps is forbidden")
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
		if diff := cmp.Diff(map[string]string{"gb200-072": ReasonPublishedDiffers}, drifting(store)); diff != "" {
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
		store.pass(4 * time.Minute) // annotateAfter of it is no drift
		wantDrift(t, store, "on their way", map[string]string{})
		store.pass(time.Hour)
		want := sameReason(1, ReasonAnnotationDiffers)
		wantDrift(t, store, "another's", want, "its annotation topology.slinky.slurm.net/spec says default:theirs, the published files say nvl:nvl-", "another writer owns the annotation")
		before := store.conditionWrites
		store.edit(func() {})
		store.pass(time.Hour)
		if store.conditionWrites != before {
			t.Errorf("%d writes at rest", store.conditionWrites-before)
		}
		store.edit(func() {
			store.refusesNotes = errors.New("nodes is forbidden")
			store.notes["gb200-002"] = ""
		})
		store.pass(time.Hour)
		want["gb200-002"] = ReasonAnnotationDiffers
		wantDrift(t, store, "refused", want)
		if got := store.conditions["gb200-002"][ConditionDrift].Message; !strings.Contains(got, "says no place, the published files say nvl:") || !strings.Contains(got, "nodes is forbidden") {
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

// TestDriftOfAnnotationsStays has passes end before they come to the annotations, one of
// which is another's.
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
		want := sameReason(2, ReasonPublishedDiffers)
		want["gb200-030"] = ReasonAnnotationDiffers
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
	snap.Nodes = append(snap.Nodes, Node{Name: "cpu-1"})
	store := newMemory(snap)
	store.keeps = map[string]bool{"cpu-1": true}
	store.notes["cpu-1"] = "other:leaf9"
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		wantDrift(t, store, "another's", map[string]string{"cpu-1": ReasonAnnotationDiffers})
		store.edit(func() { delete(store.notes, "cpu-1") })
		store.pass(time.Hour)
		wantDrift(t, store, "gone", map[string]string{})
		if got := store.conditions["cpu-1"][ConditionDrift]; got.Reason != "Agrees" {
			t.Errorf("without a report: %+v, want that it agrees again", got)
		}
	})
}

// TestNothingDriftsAtRest publishes all kinds of files: read back, each says the places
// of the plan that it was made from.
func TestNothingDriftsAtRest(t *testing.T) {
	for name, p := range map[string]Publication{
		"default": {}, "conf": {Format: "conf"}, "conf of 24.11": {Format: "conf", SlurmVersion: "24.11"}, "tree": {Topology: "tree"}, "tree in conf": {Topology: "tree", Format: "conf"},
		"blocks alone": {Topology: "block"}, "leaves": {BlocksBy: "leaf"}, "leaves in conf": {BlocksBy: "leaf", Format: "conf"}, "parents": {ParentBlocks: 4},
		"unplaced": {Unplaced: Unplaced{Block: "all", Switch: "all"}}, "flat default": {DefaultTopology: slurmconf.FlatTopology, FlatTopology: true},
	} {
		for _, site := range []string{"gb200-nvl72x4", "mixed", "hgx-h100"} {
			t.Run(name+" "+site, func(t *testing.T) {
				pub := complete(t, p)[0]
				g := Gather(&pub, snapshotOf(openCluster(t, site)))
				made, err := Make(&pub, g, Previous{})
				if err != nil {
					t.Fatal(err)
				}
				if made.Refused != "" {
					t.Skip(made.Message)
				}
				prev, err := readPrevious(&Published{Files: made.Files})
				if err == nil {
					err = prev.goOn(&pub)
				}
				if err != nil {
					t.Fatal(err)
				}
				s := &state{pub: &pub}
				s.filesDiffer(&prev, made.Specs, g.nodes, difference{})
				if len(made.Specs) == 0 || len(s.nodes.drift.found) != 0 {
					t.Errorf("%d nodes have places, differences %v", len(made.Specs), s.nodes.drift.found)
				}
			})
		}
	}
}

// BenchmarkDrift compares files that are held with a plan that has each of 10,008 nodes
// elsewhere.
func BenchmarkDrift(b *testing.B) {
	pub := complete(b, Publication{})[0]
	g := largeFacts(b, &pub)
	made, err := Make(&pub, g, Previous{})
	if err != nil {
		b.Fatal(err)
	}
	prev, err := readPrevious(&Published{Files: made.Files})
	if err != nil {
		b.Fatal(err)
	}
	elsewhere := maps.Clone(made.Specs)
	for name := range elsewhere {
		elsewhere[name] += "x"
	}
	now := time.Now()
	for name, specs := range map[string]map[string]string{"none": made.Specs, "all": elsewhere} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			s := &state{pub: &pub}
			for b.Loop() {
				s.nodes.drift.problems = map[string][]topology.Problem{}
				s.filesDiffer(&prev, specs, g.nodes, heldFor(&pub, "BigChange", now))
				if all, _ := s.nodes.drift.take(now.Add(driftAfter)); name == "all" && len(all) != len(specs) {
					b.Fatal(len(all))
				}
			}
		})
	}
}

// TestDriftByLabels has nodes whose labels are all that is known drift and agree again.
func TestDriftByLabels(t *testing.T) {
	bare := func(snap *Snapshot) *Snapshot {
		snap.Reports = nil
		return snap
	}
	store := newMemory(bare(racks(t)))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		moved := bare(racks(t))
		for i := range 15 {
			moved.Nodes[i].Labels[nodelabels.Clique] = moved.Nodes[20].Labels[nodelabels.Clique]
		}
		store.change(moved)
		store.pass(time.Hour)
		wantDrift(t, store, "held", sameReason(15, ReasonPublishedDiffers))
		store.change(bare(racks(t)))
		store.pass(time.Hour)
		wantDrift(t, store, "labelled as before", map[string]string{})
	})
}

// TestLeftAnnotationIsNoDrift has a node leave the publication whose annotation stays, for
// it is another's by now: that is no more this publication's to judge.
func TestLeftAnnotationIsNoDrift(t *testing.T) {
	site := func(team string) *Snapshot {
		snap := racks(t)
		for i := range snap.Nodes {
			snap.Nodes[i].Labels["team"] = "red"
		}
		snap.Nodes[0].Labels["team"] = team
		return snap
	}
	store := newMemory(site("red"))
	store.keeps = map[string]bool{"gb200-001": true}
	inBubble(t, store, complete(t, Publication{Nodes: Selection{Selector: "team=red"}}), func() {
		store.pass(time.Hour)
		store.change(site("blue"))
		store.pass(time.Hour)
		store.edit(func() {})
		store.pass(time.Hour)
		if files := store.get("slurm/quoin-slurm").Files["topology.yaml"]; strings.Contains(files, "gb200-[001") || store.notes["gb200-001"] == "" {
			t.Fatalf("annotation %q, published\n%s", store.notes["gb200-001"], files)
		}
		wantDrift(t, store, "left", map[string]string{})
	})
}
