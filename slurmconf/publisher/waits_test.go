package publisher

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// waitsOf returns what the publication says waits now: keys, with the time until then.
func waitsOf(store *memory) (keys []string, texts string) {
	set := store.get("slurm/quoin-slurm")
	for _, w := range plandoc.Waits(set.Clone().Annotations, time.Now()) {
		keys = append(keys, w.Key+" "+time.Until(w.Until).Round(time.Second).String())
		texts += w.For + "\n"
	}
	return keys, texts
}

// TestFilesThatWaitAreShown has new files wait for each of the times that they may wait for.
func TestFilesThatWaitAreShown(t *testing.T) {
	wait := func(t *testing.T, store *memory, when, for_ string, want ...string) {
		t.Helper()
		keys, texts := waitsOf(store)
		if diff := cmp.Diff(want, keys); diff != "" || !strings.Contains(texts, for_) {
			t.Errorf("%s: %q, keys (-want +got):\n%s", when, texts, diff)
		}
	}
	t.Run("settleTime", func(t *testing.T) {
		store := newMemory(racks(t, simulated.Fault{Node: "gb200-030", Fabric: "inProgress"}))
		pubs := complete(t, Publication{SettleTime: publication.Default().SettleTime})
		inBubbleWith(t, store, pubs, func(p *Publisher) { p.options.Seed = true }, func(*Publisher) {
			store.pass(20 * time.Second)
			wait(t, store, "a node is not known yet", "the first publication waits for node gb200-030", "settleTime 4m40s")
			store.pass(4 * time.Minute)
			wait(t, store, "the node is not known yet", "the first publication waits for node gb200-030", "settleTime 40s")
			store.pass(2 * time.Minute)
			if wait(t, store, "after the longest wait", ""); !strings.Contains(topologyOf(store), "gb200-[019-029,031-036]") {
				t.Errorf("published without gb200-030:\n%s", topologyOf(store))
			}
		})
	})
	t.Run("settleTime, after a hold", func(t *testing.T) {
		store := newMemory(podsOn(0).on(t))
		inBubbleWith(t, store, complete(t, Publication{SlurmNames: "slinky:a", SettleTime: publication.Default().SettleTime}), withSeed, func(*Publisher) {
			held := func(when, want string) {
				t.Helper()
				said, stored := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason], ""
				for _, h := range store.plan(t).Held {
					stored += h.Reason
				}
				if reason, _, _ := strings.Cut(said, ":"); reason != want || stored != want {
					t.Errorf("%s: held %q, and %q in the plan; want %q", when, said, stored, want)
				}
			}
			store.pass(20 * time.Second)
			held("no worker pod is there", "NothingToPublish")
			store.change(podsOn(72).on(t))
			store.pass(20 * time.Second)
			held("worker pods are there", "")
			wait(t, store, "worker pods are there", "the first publication waits for further nodes", "settleTime 50s")
		})
	})
	t.Run("pause between publications", func(t *testing.T) {
		store := newMemory(racksWithout(t, 1))
		inBubble(t, store, spacedBy(5*time.Minute, complete(t, Publication{})), func() {
			store.pass(4 * time.Minute)
			wait(t, store, "published", "")
			store.change(racks(t))
			store.pass(time.Second)
			wait(t, store, "a node joins", "nodes that join or leave", "pause between publications 59s")
			saves := store.waitSaves
			store.pass(2 * time.Minute)
			wait(t, store, "the node has joined", "")
			if !strings.Contains(topologyOf(store), "gb200-[001-018]") || store.waitSaves != saves {
				t.Errorf("%d writes that say that nothing waits, files:\n%s", store.waitSaves-saves, topologyOf(store))
			}
		})
	})
	t.Run("last hour", func(t *testing.T) {
		store := newMemory(racks(t))
		inBubble(t, store, complete(t, Publication{}), func() {
			store.pass(time.Minute)
			store.change(racksMoved(t, 10))
			store.pass(time.Minute)
			store.change(racksMoved(t, 16))
			store.pass(time.Minute)
			wait(t, store, "16 of 72 nodes have moved in two steps", "fewer nodes count for BigChange then", "changes of the last hour 58m10s")
			store.pass(57 * time.Minute)
			if d := store.plan(t); d.Held == nil || d.Current.Number != 2 {
				t.Errorf("revision %d, held %+v", d.Current.Number, d.Held)
			}
			store.pass(5 * time.Minute)
			if d := store.plan(t); d.Held != nil || d.Current.Number != 3 {
				t.Errorf("after the hour: revision %d, held %+v", d.Current.Number, d.Held)
			}
			wait(t, store, "published", "")
		})
	})
	t.Run("pause between publications, after a hold", func(t *testing.T) {
		store := newMemory(racksWithout(t, 1))
		inBubble(t, store, spacedBy(time.Hour, complete(t, Publication{})), func() {
			store.pass(time.Minute)
			store.change(racksMoved(t, 20))
			store.pass(time.Minute)
			if held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(held, "BigChange: ") {
				t.Fatalf("held %q", held)
			}
			store.change(racks(t))
			store.pass(2 * time.Minute)
			wait(t, store, "the nodes are back, and one joins", "nodes that join or leave", "pause between publications 56m0s")
			files := store.get("slurm/quoin-slurm")
			if text := files.Annotations[plandoc.AnnotationHeldReason] + files.Annotations[plandoc.AnnotationHeld]; text != "" || store.plan(t).Held != nil {
				t.Errorf("still held: %q, %+v", text, store.plan(t).Held)
			}
			if strings.Contains(topologyOf(store), "gb200-[001-018]") {
				t.Errorf("the node has joined:\n%s", topologyOf(store))
			}
		})
	})
	t.Run("two within a minute", func(t *testing.T) {
		movedTo := func(last int, more ...simulated.Fault) *inputs.Snapshot {
			for _, name := range nodeNames(2, last) {
				more = append(more, simulated.Fault{Node: name, MoveTo: "gb200-019", Reboot: true})
			}
			return racks(t, more...)
		}
		absent := simulated.Fault{Node: "gb200-001", Absent: true}
		store := newMemory(movedTo(1, absent))
		inBubble(t, store, spacedBy(time.Hour, complete(t, Publication{})), func() {
			store.pass(time.Minute)
			store.change(movedTo(10, absent))
			store.pass(time.Minute)
			store.change(movedTo(16, absent))
			store.pass(20 * time.Second)
			wait(t, store, "nodes have moved in two steps", "fewer nodes count for BigChange then", "changes of the last hour 58m50s")
			store.change(movedTo(10))
			store.pass(20 * time.Second)
			wait(t, store, "the last ones are back, and one joins", "")
			store.pass(40 * time.Second)
			wait(t, store, "a minute after the first", "nodes that join or leave", "pause between publications 57m50s")
		})
	})
	t.Run("none", func(t *testing.T) {
		store := newMemory(racks(t))
		inBubble(t, store, complete(t, Publication{SettleTime: publication.Default().SettleTime}), func() {
			store.pass(time.Hour)
			store.change(racksWithout(t, 3))
			store.pass(time.Hour)
			if store.waitSaves != 0 {
				t.Errorf("%d writes that say what nodes wait for", store.waitSaves)
			}
		})
	})
}
