package publisher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/sites"
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

// TestLabelsWithoutAnnotation labels nodes of a release that takes no annotation, and leaves an
// annotation of before alone.
func TestLabelsWithoutAnnotation(t *testing.T) {
	store := newMemory(racks(t))
	store.notes["gb200-001"] = "nvl:before"
	inBubble(t, store, complete(t, Publication{Labels: true, SlurmVersion: "24.11", Topology: "tree"}), func() {
		store.pass(time.Hour)
		want := labelsOf(store, "gb200-001", 1) // topology.conf has one topology
		delete(want, plandoc.LabelBlock)
		delete(want, plandoc.LabelClique)
		wantMarks(t, store, "24.11", "gb200-001", want)
		if store.notes["gb200-001"] != "nvl:before" || len(store.notes) != 1 {
			t.Errorf("annotations %v", store.notes)
		}
	})
}

// TestLabelsFollowThePlan has a node move to another rack, and a node leave.
func TestLabelsFollowThePlan(t *testing.T) {
	site := func(snap *inputs.Snapshot, label string) *inputs.Snapshot {
		for i := range snap.Nodes {
			snap.Nodes[i].Labels["team"] = "red"
		}
		snap.Nodes[4].Labels["team"] = label
		return snap
	}
	store := newMemory(site(racks(t), "red"))
	inBubble(t, store, complete(t, Publication{Labels: true, Nodes: Selection{Selector: "team=red"}}), func() {
		store.pass(time.Hour)
		wantMarks(t, store, "before", "gb200-072", labelsOf(store, "gb200-072", 4))
		store.change(site(racksMoved(t, 1), "red"))
		store.pass(time.Hour)
		wantMarks(t, store, "moved", "gb200-001", labelsOf(store, "gb200-019", 2))
		store.change(site(racksMoved(t, 1), ""))
		store.pass(5 * time.Minute)
		if len(store.marks.values["gb200-005"]) != 4 {
			t.Errorf("%v of a node that leaves in a while", store.marks.values["gb200-005"])
		}
		store.pass(time.Hour)
		wantMarks(t, store, "left", "gb200-005", map[string]string{})
		store.edit(func() {})
		store.pass(time.Minute)
		if store.notes["gb200-005"] != "" || len(store.plan(t).Leaving) != 0 {
			t.Errorf("annotation %q, leaving %v", store.notes["gb200-005"], store.plan(t).Leaving)
		}
	})
}

// TestMarksWithoutPlaces has machines whose switches nobody has labelled. Then the labels of the
// switches come.
func TestMarksWithoutPlaces(t *testing.T) {
	store := newMemory(hgxSite(t, 0))
	inBubble(t, store, complete(t, Publication{Labels: true}), func() {
		store.pass(time.Hour)
		wantMarks(t, store, "no switch is known", "h01", nil)
		if store.annotated != 0 || len(store.notes) != 0 {
			t.Errorf("%d writes, annotations %v", store.annotated, store.notes)
		}
		store.change(hgxSite(t, 8))
		store.pass(time.Hour)
		wantMarks(t, store, "the switches are labelled", "h01", map[string]string{plandoc.LabelLeaf: "leaf-0", plandoc.LabelSpine: "spine"})
		if store.notes["h01"] != "fabric:leaf-0" || store.annotated != 8 {
			t.Errorf("annotation %q, %d writes", store.notes["h01"], store.annotated)
		}
	})
}

// TestMarksOfTwoPublications has nodes change from a publication that labels to one that does not, and
// to one that does.
func TestMarksOfTwoPublications(t *testing.T) {
	site := func(team string) *inputs.Snapshot {
		return labelled(t, "team", "red", "blue", map[string]string{"gb200-005": team})
	}
	for name, labels := range map[string]bool{"labels too": true, "labels none": false} {
		t.Run(name, func(t *testing.T) {
			store := newMemory(site("red"))
			pubs := complete(t, Publication{Name: "red", Labels: true, Nodes: Selection{Selector: "team=red"}, BaseBlockSize: 18},
				Publication{Name: "blue", Labels: labels, Nodes: Selection{Selector: "team=blue"}, BaseBlockSize: 18})
			inBubble(t, store, pubs, func() {
				store.pass(time.Hour)
				want := 36
				if labels {
					want = 72
				}
				if len(store.marks.values) != want {
					t.Errorf("%d nodes labelled", len(store.marks.values))
				}
				store.change(site("blue"))
				store.pass(time.Hour)
				store.edit(func() {})
				store.pass(time.Hour)
				after := map[string]string{}
				if labels {
					after = labelsOf(store, "gb200-005", 1)
					delete(after, plandoc.LabelBlock) // one node is no block
					delete(after, plandoc.LabelClique)
				}
				wantMarks(t, store, "in the other publication", "gb200-005", after)
				store.edit(func() {})
				store.rests(t, time.Hour)
			})
		})
	}
}

// largeMarks returns a function that looks at the annotations and labels of 10,008 Nodes, which have all
// of them. It returns how many Nodes were written.
func largeMarks(t testing.TB) (look func() int) {
	t.Helper()
	pub := complete(t, Publication{Labels: true})[0]
	store := newMemory(snapshotOf(sites.Parse(t, largeSite)))
	in := &gathered{Inputs: pub.Rules.Gather(store.snap)}
	made, err := makeFrom(pub, in)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	doc, set := plandoc.New("default", pub.Place().String()), (*plandoc.Published)(nil).Clone()
	first := made.revision(&doc.Current, made.changes(&doc.Current), now.Add(-time.Hour))
	doc.Add(first)
	set.Put(&doc.Current, made.Files, first.Time)
	p := newPublisher(store, []*publication.Cluster{pub})
	m := newLoop(outlets{store: store, log: p.log, metrics: p.metrics}, nil, p.clusters, 0, now).marks
	files := outcome{stored: &stored{doc: doc, set: set}, specs: made.Specs}
	wants := m.wants(files)
	for name, n := range in.Nodes {
		want := wants(name)
		if err := store.Mark(t.Context(), n, toWrite(m.judge(n, &want))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Snapshot(t.Context()); err != nil || len(store.notes) != 10008 || len(store.marks.values) != 10008 {
		t.Fatal(err, len(store.notes), len(store.marks.values))
	}
	in.Inputs = pub.Rules.Gather(store.snap)
	return func() int {
		before := store.annotated
		out, err := m.write(t.Context(), files, in, nil, now)
		if err != nil || len(out.differences) > 0 || !m.timer.Next().IsZero() {
			t.Fatal(err, len(out.differences), m.timer.Next())
		}
		return store.annotated - before
	}
}

// TestLargeAtRest writes nothing for 10,008 Nodes that have all annotations and labels.
func TestLargeAtRest(t *testing.T) {
	if n := largeMarks(t)(); n != 0 {
		t.Errorf("%d writes of Nodes at rest", n)
	}
}
