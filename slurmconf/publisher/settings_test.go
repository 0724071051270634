package publisher

import (
	"bytes"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// TestSettingsChange starts publishers with changed settings, by which all published names leave Slurm.
// Nothing leaves, the true reason is said at once, a restart in between changes nothing, and with the old
// settings all is as before.
func TestSettingsChange(t *testing.T) {
	slinky := func() *inputs.Snapshot { return whole(podsOn(72).on(t)) }
	unwatched := func() *inputs.Snapshot { return whole(racks(t)) } // worker pods are not looked at
	inPool := func() *inputs.Snapshot {
		snap := whole(racks(t))
		for i := range snap.Nodes {
			n := &snap.Nodes[i]
			n.Labels = maps.Clone(n.Labels)
			n.Labels["pool"], n.Labels["sn"] = "a", "l-"+n.Name
		}
		return snap
	}
	for _, tt := range []struct {
		name       string
		old, new   Publication
		snap, then func() *inputs.Snapshot
		want       string
		// place is where the files of new are.
		place string
	}{
		{"slurmNames, from pods to short", Publication{SlurmNames: "slinky:a"}, Publication{SlurmNames: "short"}, slinky, unwatched,
			"BigChange: 72 of 72 nodes would get another Slurm name, more than 20 %: Node gb200-001 was named g001 until now (slurmNames: slinky:a, namespace: slurm); by slurmNames: short it is gb200-001;", ""},
		{"slurmNames, from a label to short", Publication{SlurmNames: "label:sn"}, Publication{SlurmNames: "short"}, inPool, inPool,
			"BigChange: 72 of 72 nodes would get another Slurm name, more than 20 %: Node gb200-001 was named l-gb200-001 until now (slurmNames: label:sn); by slurmNames: short it is gb200-001;", ""},
		{"slurmNames, from short to pods", Publication{}, Publication{SlurmNames: "slinky:a"}, slinky, slinky,
			"BigChange: 72 of 72 nodes would get another Slurm name, more than 20 %: Node gb200-001 was named gb200-001 until now (slurmNames: short); by slurmNames: slinky:a, namespace: slurm it is g001;", ""},
		{"slurmNames, to pods that are not there", Publication{}, Publication{SlurmNames: "slinky:a"}, unwatched, unwatched,
			"NothingToPublish: no node is in a block or switch: there is nothing to write; nodes by reason: NoWorkerPod 72; of the published nodes 72 are without a worker pod by slurmNames: slinky:a, which was short", ""},
		{"slurmNames, to pods of another Controller", Publication{SlurmNames: "slinky:a"}, Publication{SlurmNames: "slinky:b"}, slinky, slinky,
			"72 are without a worker pod by slurmNames: slinky:b, which was slinky:a", ""},
		{"nodes.selector", Publication{Nodes: Selection{Selector: "pool=a"}}, Publication{Nodes: Selection{Selector: "pool=b"}}, inPool, inPool,
			"NothingToPublish: no node is in a block or switch: there is nothing to write; no node has the labels of nodes.selector, which is pool=b; of the published nodes 72 are not selected any more (nodes.selector: pool=b, which was pool=a)", ""},
		{"a new nodes.selector", Publication{}, Publication{Nodes: Selection{Selector: "pool=b"}}, inPool, inPool,
			"NothingToPublish: no node is in a block or switch: there is nothing to write; no node has the labels of nodes.selector, which is pool=b; of the published nodes 72 are not selected any more (nodes.selector: pool=b, which is new)", ""},
		{"nodes.slinky", Publication{Nodes: Selection{Slinky: "a"}}, Publication{Nodes: Selection{Slinky: "b"}}, slinky, slinky,
			"72 are without a worker pod by slurmNames: slinky:b, which was slinky:a", ""},
		{"a new nodes.slinky", Publication{}, Publication{Nodes: Selection{Slinky: "b"}, SlurmNames: "short"}, unwatched, slinky,
			"NothingToPublish: no node is in a block or switch: there is nothing to write; no node has a worker pod of nodes.slinky, which is b; of the published nodes 72 are not selected any more (nodes.slinky: b, which is new)", ""},
		{"the namespace of pods", Publication{SlurmNames: "slinky"}, Publication{SlurmNames: "slinky", Namespace: "hpc"}, slinky, unwatched,
			"72 are without a worker pod by namespace: hpc, which was slurm", "hpc/quoin-slurm"},
		{"the publication's name, and slurmNames", Publication{SlurmNames: "slinky:a"}, Publication{Name: "hgx", ConfigMap: "quoin-slurm", SlurmNames: "short"}, slinky, unwatched,
			"BigChange: 72 of 72 nodes would get another Slurm name, more than 20 %: Node gb200-001 was named g001 until now (slurmNames: slinky:a, namespace: slurm); by slurmNames: short it is gb200-001;", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemory(tt.snap())
			inBubble(t, store, complete(t, tt.old), func() { store.pass(30 * time.Minute) })
			before, digest := store.plan(t).Current, ""
			pubs := complete(t, tt.new)
			for _, wait := range []time.Duration{time.Minute, 2 * time.Hour} {
				store.snap = tt.then()
				inBubble(t, store, pubs, func() {
					store.pass(wait)
					d, err := store.LoadPlan(t.Context(), pubs[0].Name)
					if err != nil || d == nil {
						t.Errorf("no plan, %v", err)
						return
					}
					set := store.get(pubs[0].Place().String())
					if tt.place != "" && tt.place != pubs[0].Place().String() {
						t.Errorf("the files are in %s", pubs[0].Place())
					}
					if len(d.Held) != 1 || !strings.Contains(d.Held[0].Reason+": "+d.Held[0].Message, tt.want) {
						t.Errorf("after %s, held %+v, want %s", wait, d.Held, tt.want)
						return
					}
					if digest = d.Held[0].Digest; !strings.Contains(set.Annotations[plandoc.AnnotationHeld], digest) {
						t.Errorf("the annotation holds %q, and the plan %s", set.Annotations[plandoc.AnnotationHeld], digest)
					}
					if diff := cmp.Diff(before.Plan.Places(), d.Current.Plan.Places()); diff != "" || d.Current.OfFiles() != plandoc.Digest(set.Own()) || len(store.notes) != 72 {
						t.Errorf("%d annotations; places (-before +after):\n%s", len(store.notes), diff)
					}
				})
			}
			back := tt.old
			back.Name, back.ConfigMap, back.Namespace = tt.new.Name, tt.new.ConfigMap, ""
			store.snap = tt.snap()
			inBubble(t, store, complete(t, back), func() {
				store.pass(2 * time.Hour)
				d, err := store.LoadPlan(t.Context(), pubs[0].Name)
				if err != nil || d.Held != nil || d.Current.Number != before.Number {
					t.Errorf("back: %v, held %+v, revision %d, want %d", err, d.Held, d.Current.Number, before.Number)
				}
			})
		})
	}
}

// TestNamesOfPodsStayLonger has names that no pod has any more: if pods gave them, a pod may be made again.
func TestNamesOfPodsStayLonger(t *testing.T) {
	now := map[string]string{keyNames: "slinky:a"}
	for old, want := range map[string]fate{"short": leavesNow, "slinky": leavesLater, "slinky:b": leavesLater, "pod:app=slurmd": leavesLater} {
		if got := (&settings{old: map[string]string{keyNames: old}, now: now}).absence(); got.fate != want || !got.bySettings {
			t.Errorf("slurmNames was %s: %+v, want fate %d", old, got, want)
		}
	}
	if got := (&settings{now: now, unknown: true}).absence(); got.fate != leavesLater {
		t.Errorf("nobody knows slurmNames: %+v", got)
	}
}

// TestPublicationIsRenamed gives a publication another name and the same ConfigMap: it goes on with all
// that it knew, and nobody is told to delete files that are in use. A stored plan that nobody can read changes nothing.
func TestPublicationIsRenamed(t *testing.T) {
	store, log := newMemory(whole(podsOn(72).on(t))), &bytes.Buffer{}
	inBubble(t, store, complete(t, Publication{SlurmNames: "slinky:a"}), func() { store.pass(30 * time.Minute) })
	before := store.plan(t)
	store.plans["broken"] = []byte("x")
	inBubbleWith(t, store, complete(t, Publication{Name: "hgx", ConfigMap: "quoin-slurm", SlurmNames: "slinky:a"}), func(p *Publisher) { p.log = slog.New(slog.NewTextHandler(log, nil)) }, func(*Publisher) {
		store.pass(30 * time.Minute)
		d, err := store.LoadPlan(t.Context(), "hgx")
		if err != nil || d == nil {
			t.Errorf("no plan, %v", err)
			return
		}
		d.Publication, d.Version = before.Publication, before.Version
		if diff := cmp.Diff(before, d); diff != "" {
			t.Errorf("plan (-before +after):\n%s", diff)
		}
	})
	const want = "it is stored and no longer configured: publication \\\"hgx\\\" has its files in slurm/quoin-slurm now; delete its stored plan, and not the files"
	if text := log.String(); strings.Count(text, want) != 1 || strings.Count(text, "the publication was renamed") != 1 {
		t.Errorf("want %s in\n%s", want, text)
	}
}

// TestPublicationMoves gives a publication another ConfigMap: its files are there at once, and people
// hear that Slurm still reads the old ones.
func TestPublicationMoves(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() { store.pass(5 * time.Minute) })
	old := store.get("slurm/quoin-slurm").Clone()
	store.events = nil
	inBubble(t, store, complete(t, Publication{ConfigMap: "other"}), func() {
		store.pass(time.Hour)
		if diff := cmp.Diff(old.Files, store.get("slurm/other").Files) + cmp.Diff(old, store.get("slurm/quoin-slurm")); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	if diff := cmp.Diff([]string{reasonMoved}, store.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestPlanOfNobody begins with files whose plan is lost, and with another slurmNames: no published name
// is that of a Node. All is held at once, and nothing is published beside the names.
func TestPlanOfNobody(t *testing.T) {
	store := newMemory(whole(podsOn(72).on(t)))
	inBubble(t, store, complete(t, Publication{SlurmNames: "slinky:a", Membership: "file"}), func() { store.pass(30 * time.Minute) })
	files := store.get("slurm/quoin-slurm").Clone().Files
	delete(store.plans, "default")
	store.snap = whole(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		for range 2 {
			store.pass(time.Hour)
			const want = "72 of 72 nodes would move or leave, more than 20 %: 72 are on no Node that is known"
			if diff, d := cmp.Diff(files, store.get("slurm/quoin-slurm").Files), store.plan(t); diff != "" || len(d.Held) != 1 || !strings.HasPrefix(d.Held[0].Message, want) {
				t.Errorf("held %+v, files (-before +after):\n%s", d.Held, diff)
			}
		}
	})
}
