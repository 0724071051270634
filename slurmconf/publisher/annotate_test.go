package publisher

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/annotation"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

func TestPublishThenAnnotate(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(9 * time.Second)
		if store.saves != 0 {
			t.Fatal("published before the facts were quiet for 10 s")
		}
		store.pass(2 * time.Second)
		if store.saves != 1 || len(store.notes) != 0 {
			t.Fatalf("%d saves and %d annotations after 11 s, want 1 and none", store.saves, len(store.notes))
		}
		store.pass(115 * time.Second)
		if len(store.notes) != 0 {
			t.Fatal("nodes annotated before slurmctld had the time to load the files")
		}
		store.pass(10 * time.Second)
		if got := store.notes["gb200-001"]; !strings.HasPrefix(got, "nvl:nvl-") || !strings.Contains(got, ",fabric:leaf-01") || len(store.notes) != 72 {
			t.Fatalf("%d annotations, gb200-001 has %q", len(store.notes), got)
		}
		store.pass(24 * time.Hour)
		if store.saves != 1 {
			t.Errorf("%d saves after a day at rest, want 1", store.saves)
		}
	})
}

// TestKnownUnitsDoNotWait has nodes join a rack that is published and one that is not.
func TestKnownUnitsDoNotWait(t *testing.T) {
	var absent []simulated.Fault
	for i := range 18 {
		absent = append(absent, simulated.Fault{Node: fmt.Sprintf("gb200-%03d", 55+i), Absent: true})
	}
	store := newMemory(racks(t, append(absent, simulated.Fault{Node: "gb200-005", Absent: true})...))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		store.change(racks(t, absent...))
		store.pass(11 * time.Second)
		if got, want := store.notes["gb200-005"], store.notes["gb200-004"]; got != want {
			t.Errorf("a node of a known block has the annotation %q at once, want %q", got, want)
		}
		store.change(racks(t))
		store.pass(125 * time.Second)
		if got := store.notes["gb200-055"]; got != "" {
			t.Errorf("a node of a new block has the annotation %q before slurmctld had the time to load it", got)
		}
		store.pass(6 * time.Second)
		if len(store.notes) != 72 {
			t.Errorf("%d nodes annotated in the end, want 72", len(store.notes))
		}
	})
}

// TestPublishEvery has nodes of published racks leave and join for half an hour, then one
// that moves and a rack that is new.
func TestPublishEvery(t *testing.T) {
	var absent []simulated.Fault
	for i := range 18 {
		absent = append(absent, simulated.Fault{Node: fmt.Sprintf("gb200-%03d", 55+i), Absent: true})
	}
	without := racks(t, append(absent, simulated.Fault{Node: "gb200-005", Absent: true})...)
	store := newMemory(racks(t, absent...))
	every := Duration{Duration: 5 * time.Minute}
	inBubble(t, store, complete(t, Publication{PublishEvery: every, GoneAfter: Duration{Duration: time.Nanosecond}}), func() {
		store.pass(time.Hour)
		before := store.saves
		for i := range 60 {
			store.change([]*inputs.Snapshot{without, racks(t, absent...)}[i%2])
			store.pass(30 * time.Second)
		}
		if n := store.saves - before; n < 1 || n > 7 {
			t.Errorf("%d saves in half an hour, want 1 to 7", n)
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
			p.Annotations[published.AnnotationPublished] = time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)
			delete(store.notes, "gb200-005")
		})
		store.pass(5 * time.Minute)
		if got := store.notes["gb200-005"]; got != want {
			t.Errorf("annotation %q, want %q", got, want)
		}
	})
}

// turns counts the annotations of each pass.
type turns struct {
	*memory
	now, most int
}

func (s *turns) Load(ctx context.Context, p published.Place) (*published.Set, error) {
	s.mu.Lock()
	s.now = 0
	s.mu.Unlock()
	return s.memory.Load(ctx, p)
}

func (s *turns) Annotate(ctx context.Context, node, spec string) error {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	return s.memory.Annotate(ctx, node, spec)
}

// TestAnnotatedInTurns holds that a file does not wait until all annotations are written.
func TestAnnotatedInTurns(t *testing.T) {
	store := newMemory(racks(t))
	count := &turns{memory: store}
	prepare := func(p *Publisher) { p.store = count }
	inBubbleWith(t, store, complete(t, Publication{}), prepare, func(*Publisher) {
		store.pass(time.Hour)
		if len(store.notes) != 72 || store.annotated != 72 || count.most != annotation.NodesATurn {
			t.Errorf("%d nodes annotated by %d writes, %d at most in a pass: want %d", len(store.notes), store.annotated, count.most, annotation.NodesATurn)
		}
	})
}

func TestTouchedAnnotationsComeBack(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		want := maps.Clone(store.notes)
		if len(want) != 72 {
			t.Errorf("%d nodes annotated", len(want))
		}
		for _, note := range []string{"", "default:theirs", ""} {
			store.edit(func() { store.notes["gb200-005"] = note })
			store.pass(5 * time.Minute)
			if diff := cmp.Diff(want, store.notes); diff != "" {
				t.Errorf("after %q (-want +got):\n%s", note, diff)
			}
		}
		// Without its own annotations the publication is dated anew, once.
		p := store.get("slurm/quoin-slurm")
		store.edit(func() {
			clear(p.Annotations)
			store.notes["gb200-005"] = ""
		})
		store.pass(5 * time.Minute)
		saves := store.saves
		store.pass(time.Hour)
		if diff := cmp.Diff(want, store.notes); diff != "" || store.saves != saves || store.get("slurm/quoin-slurm").Annotations[published.AnnotationDigest] == "" {
			t.Errorf("%d saves more, annotations %v (-want +got):\n%s", store.saves-saves, store.get("slurm/quoin-slurm").Annotations, diff)
		}
	})
}

// TestAnnotationsDoNotStarve lets one node leave and return all the time.
func TestAnnotationsDoNotStarve(t *testing.T) {
	whole, without := racks(t), racks(t, simulated.Fault{Node: "gb200-072", Absent: true})
	store := newMemory(whole)
	inBubble(t, store, complete(t, Publication{GoneAfter: Duration{Duration: time.Nanosecond}}), func() {
		store.pass(time.Minute)
		for i := range 20 {
			store.change([]*inputs.Snapshot{without, whole}[i%2])
			store.pass(15 * time.Second)
		}
		if len(store.notes) < 71 || store.saves < 20 {
			t.Errorf("%d annotations after five minutes of changes to another node (%d publications)", len(store.notes), store.saves)
		}
	})
}

func TestForeignAnnotationIsLeftAlone(t *testing.T) {
	store := newMemory(racks(t))
	store.foreign["gb200-005"] = true
	store.notes["gb200-005"] = "default:theirs"
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		if store.notes["gb200-005"] != "default:theirs" || len(store.notes) != 72 {
			t.Errorf("gb200-005 has %q, %d nodes annotated", store.notes["gb200-005"], len(store.notes))
		}
	})
}

func TestOverlappingPublications(t *testing.T) {
	store := newMemory(racks(t))
	pubs := complete(t, Publication{Name: "a"}, Publication{Name: "b", Namespace: "slurm-b", Topology: "tree"})
	inBubble(t, store, pubs, func() {
		store.pass(time.Hour)
		if got := store.notes["gb200-001"]; !strings.HasPrefix(got, "nvl:") || len(store.notes) != 72 || store.annotated != 72 {
			t.Errorf("gb200-001 has %q, %d nodes annotated by %d writes: want the first publication's, once", got, len(store.notes), store.annotated)
		}
	})
}
