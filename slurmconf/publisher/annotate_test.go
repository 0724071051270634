package publisher

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

func TestPublishThenAnnotate(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{SettleTime: publication.Default().SettleTime}), func() {
		store.pass(69 * time.Second)
		if store.saves != 0 {
			t.Error("published before no node had been added for a minute")
		}
		store.pass(2 * time.Second)
		if store.saves != 1 || len(store.notes) != 0 {
			t.Errorf("%d saves and %d annotations after 71 s, want 1 and none", store.saves, len(store.notes))
		}
		store.pass(115 * time.Second)
		if len(store.notes) != 0 {
			t.Error("nodes annotated before slurmctld had the time to load the files")
		}
		store.pass(10 * time.Second)
		if got := store.notes["gb200-001"]; !strings.HasPrefix(got, "nvl:nvl-") || !strings.Contains(got, ",fabric:leaf-01") || len(store.notes) != 72 {
			t.Fatalf("%d annotations, gb200-001 has %q", len(store.notes), got)
		}
		store.rests(t, 24*time.Hour)
	})
}

// TestSpacing has nodes of published racks leave and join for half an hour, then one
// that moves and a rack that is new.
func TestSpacing(t *testing.T) {
	absent := lastRack(0)
	without := racks(t, append(absent, simulated.Fault{Node: "gb200-005", Absent: true})...)
	store := newMemory(racks(t, absent...))
	pubs := spacedBy(5*time.Minute, complete(t, Publication{RemoveAfter: Duration{Duration: time.Nanosecond}}))
	inBubble(t, store, pubs, func() {
		store.pass(time.Hour)
		before := store.saves
		for i := range 60 {
			store.change([]*inputs.Snapshot{without, racks(t, absent...)}[i%2])
			store.pass(30 * time.Second)
		}
		if n := store.saves - before; n < 1 || n > 7 || store.waitSaves > 7 {
			t.Errorf("%d saves in half an hour, and %d to say that a change waits, want 1 to 7", n, store.waitSaves)
		}
		store.change(racks(t, absent...))
		store.pass(time.Hour)
		store.change(without)
		store.pass(15 * time.Second)
		if strings.Contains(topologyOf(store), "gb200-[001-018]") {
			t.Error("a change after a quiet hour waits")
		}
		store.change(racks(t, absent...))
		store.pass(15 * time.Second)
		if strings.Contains(topologyOf(store), "gb200-[001-018]") || store.notes["gb200-005"] != store.notes["gb200-004"] {
			t.Errorf("a node that joins is in the file at once, or its annotation is %q", store.notes["gb200-005"])
		}
		store.change(racks(t))
		store.pass(15 * time.Second)
		if !strings.Contains(topologyOf(store), "gb200-[055-072]") {
			t.Error("a new rack waits")
		}
	})
	store.snap = racks(t, simulated.Fault{Node: "gb200-005", Absent: true})
	inBubble(t, store, pubs, func() { store.pass(time.Hour) })
	store.snap = racks(t)
	justNow := func(*Publisher) {
		store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationPublished] = time.Now().UTC().Format(time.RFC3339)
	}
	inBubbleWith(t, store, pubs, justNow, func(p *Publisher) {
		store.pass(15 * time.Second)
		if n := len(nodeInfoSeries(t, p.metrics)); n != 71 || strings.Contains(topologyOf(store), "gb200-[001-018]") {
			t.Errorf("another publisher begins while a node waits, and serves the places of %d nodes, want those of 71\n%s", n, topologyOf(store))
		}
	})
}

// TestPublishedInTheFuture has the clock of an earlier leader run a year ahead.
func TestPublishedInTheFuture(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		want := store.notes["gb200-005"]
		store.edit(func() {}) // as a Node's new annotation is a change
		store.pass(time.Hour)
		p := store.get("slurm/quoin-slurm")
		store.edit(func() {
			p.Annotations[plandoc.AnnotationPublished] = time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)
			delete(store.notes, "gb200-005")
		})
		store.pass(5 * time.Minute)
		if got := store.notes["gb200-005"]; got != want {
			t.Errorf("annotation %q, want %q", got, want)
		}
	})
}

// contest are two publications of 36 nodes each. Nodes with the label both are taken by both.
func contest(t *testing.T, labels map[string]string) ([]*publication.Cluster, *inputs.Snapshot) {
	t.Helper()
	return complete(t, Publication{Name: "a", Nodes: Selection{Selector: "sc in (a,both)"}, BaseBlockSize: 18}, Publication{Name: "b", Nodes: Selection{Selector: "sc in (b,both)"}, BaseBlockSize: 18}), labelled(t, "sc", "a", "b", labels)
}

// wantIn checks which of the publications have the node in their files.
func wantIn(t *testing.T, when string, store *memory, node string, want ...string) {
	t.Helper()
	var in []string
	for _, name := range []string{"a", "b"} {
		if set := store.get("slurm/quoin-slurm-" + name); set != nil {
			plan, err := plandoc.FromFiles(set.Own())
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := plan.Places()[node]; ok {
				in = append(in, name)
			}
		}
	}
	if !slices.Equal(in, want) {
		t.Errorf("%s: %s is in the files of %v, want %v", when, node, in, want)
	}
}

// problemOf is what the first publication says now of a node under the reason.
func problemOf(t *testing.T, store *memory, pubs []*publication.Cluster, node, reason string) (said string) {
	t.Helper()
	doc, err := store.LoadPlan(t.Context(), pubs[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := NewDryPass(pubs, 0).Plan(store.snap, doc, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plan.Problems {
		if p.Node == node && p.Reason == reason {
			said += p.Message
		}
	}
	return said
}

// TestNodeInTwoPublications has labels by which two publications take a node, and take one
// back. All other nodes of both go on.
func TestNodeInTwoPublications(t *testing.T) {
	const node, next = "gb200-005", "gb200-040"
	relabel := func(store *memory, labels map[string]string) {
		_, snap := contest(t, labels)
		store.change(snap)
		store.pass(20 * time.Minute)
	}
	finding := func(t *testing.T, p *Publisher, publication string, want float64) {
		t.Helper()
		if got := testutil.ToFloat64(p.metrics.problems.WithLabelValues(publication, ReasonNodeInTwoPublications)); got != want {
			t.Errorf("publication %s has %v findings, want %v", publication, got, want)
		}
	}
	t.Run("new", func(t *testing.T) {
		pubs, snap := contest(t, map[string]string{node: "both"})
		store := newMemory(snap)
		inBubbleWith(t, store, pubs, func(*Publisher) {}, func(p *Publisher) {
			store.pass(time.Hour)
			wantIn(t, "from the start", store, node)
			wantIn(t, "from the start", store, next, "b")
			if len(store.notes) != 71 || store.notes[node] != "" {
				t.Errorf("%d nodes are annotated, and %s with %q", len(store.notes), node, store.notes[node])
			}
			finding(t, p, "a", 1)
			finding(t, p, "b", 1)
			for _, name := range []string{"a", "b"} {
				if left := store.get("slurm/quoin-slurm-" + name).Annotations[plandoc.AnnotationLeftOut]; !strings.Contains(left, node) || !strings.Contains(left, `publications "a" and "b" take it: give each its own nodes; until then "`+name+`" does not publish it`) {
					t.Errorf("left out of %s: %s", name, left)
				}
			}
			relabel(store, map[string]string{node: "b"})
			wantIn(t, "taken back", store, node, "b")
			finding(t, p, "a", 0)
			finding(t, p, "b", 0)
			if store.notes[node] == "" {
				t.Error("not annotated when one publication takes it")
			}
		})
	})
	t.Run("published", func(t *testing.T) {
		pubs, snap := contest(t, nil)
		store := newMemory(snap)
		inBubbleWith(t, store, pubs, func(*Publisher) {}, func(p *Publisher) {
			store.pass(time.Hour)
			wantIn(t, "before", store, node, "a")
			note, annotated := store.notes[node], store.annotated
			relabel(store, map[string]string{node: "both", next: ""})
			wantIn(t, "both take it", store, node, "a")
			wantIn(t, "nobody takes it", store, next)
			if store.notes[node] != note || store.annotated != annotated+1 || len(store.notes) != 71 { // next loses its own
				t.Errorf("annotated with %q, before with %q, by %d writes", store.notes[node], note, store.annotated-annotated)
			}
			finding(t, p, "a", 1)
			finding(t, p, "b", 1)
			if said := problemOf(t, store, pubs, node, ReasonNodeInTwoPublications); !strings.HasSuffix(said, `until then it stays in "a" with the annotation that it has`) {
				t.Errorf("said of %s: %q", node, said)
			}
			_, snap := contest(t, map[string]string{node: "b"})
			store.change(snap)
			store.pass(3 * time.Minute) // removeAfter is longer
			wantIn(t, "taken back", store, node, "b")
			store.pass(time.Hour)
			if store.notes[node] == "" || len(store.notes) != 72 {
				t.Errorf("annotated with %q of %d", store.notes[node], len(store.notes))
			}
		})
	})
	t.Run("new, and one of both annotates no node", func(t *testing.T) {
		pubs, snap := contest(t, map[string]string{node: "both"})
		pubs[1].Annotates = false
		pubs[1].Annotate = new(bool)
		store := newMemory(snap)
		store.notes[node] = "nvl:b1" // as somebody has written it
		inBubble(t, store, pubs, func() {
			store.pass(time.Hour)
			if store.notes[node] != "nvl:b1" || len(store.notes) != 36 {
				t.Errorf("annotated with %q of %d", store.notes[node], len(store.notes))
			}
		})
	})
	t.Run("published in both", func(t *testing.T) {
		pubs, snap := contest(t, nil)
		store := newMemory(snap)
		inBubble(t, store, pubs, func() { store.pass(time.Hour) })
		_, store.snap = contest(t, map[string]string{node: "b"})
		inBubble(t, store, pubs[1:], func() { store.pass(time.Hour) }) // a publisher that does not serve a
		_, store.snap = contest(t, map[string]string{node: "both"})
		inBubble(t, store, pubs, func() {
			store.pass(5 * time.Minute)
			wantIn(t, "after a restart", store, node, "a", "b")
			note, annotated := store.notes[node], store.annotated
			store.edit(func() {})
			store.pass(time.Hour)
			wantIn(t, "both take it", store, node, "a", "b")
			if store.notes[node] != note || store.annotated != annotated {
				t.Errorf("annotated with %q, before with %q, by %d writes", store.notes[node], note, store.annotated-annotated)
			}
			relabel(store, map[string]string{node: "a"})
			wantIn(t, "taken back", store, node, "a")
		})
	})
}
