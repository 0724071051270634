package publisher

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestRollback goes back to the first revision, and forward again by an approval.
func TestRollback(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		first := store.get("slurm/quoin-slurm").Files["topology.yaml"]
		store.change(racks(t, simulated.Fault{Node: "gb200-001", MoveTo: "gb200-019", Reboot: true}))
		store.pass(time.Hour)
		second := topologyOf(store)
		if d := store.plan(t); second == first || d.Current.Number != 2 || d.Current.Author != "quoin-publisher" ||
			!strings.HasPrefix(d.Current.Why, "gb200-001 moves from nvl-") || !strings.Contains(d.Current.Why, "NVML twice since boot") {
			t.Fatalf("revision %d by %s: %s\n%s", d.Current.Number, d.Current.Author, d.Current.Why, second)
		}

		held := func(prefix string) {
			t.Helper()
			if got := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(got, prefix) {
				t.Errorf("held %q, want %s", got, prefix)
			}
			if d := store.plan(t); len(d.Held) != 1 || !strings.HasPrefix(prefix, d.Held[0].Reason) {
				t.Errorf("held in the plan: %+v", d.Held)
			}
		}
		ask := func(key, value, by string) {
			p := store.get("slurm/quoin-slurm")
			store.edit(func() { p.Annotations[key], p.Annotations[plandoc.AnnotationBy] = value, by })
			store.pass(10 * time.Minute)
		}
		ask(plandoc.AnnotationRollback, "9", "ann")
		held("RevisionUnknown: the annotation quoin.dev/rollback=9 names no revision that is kept: name one of 2, 1, or remove the annotation")
		if topologyOf(store) != second {
			t.Error("an unknown revision changed the files")
		}
		ask(plandoc.AnnotationRollback, "2", "ann")
		if p := store.get("slurm/quoin-slurm"); store.plan(t).RolledBack != 0 || p.Annotations[plandoc.AnnotationRollback] != "" || p.Annotations[plandoc.AnnotationHeldReason] != "" {
			t.Errorf("back to the published revision: annotations %v, rolled back to %d", p.Annotations, store.plan(t).RolledBack)
		}
		ask(plandoc.AnnotationRollback, "1", "ann")
		held("RolledBack: ann went back to revision 1, and since then every change waits; to publish it anyway, set the annotation quoin.dev/approve=")
		d := store.plan(t)
		if topologyOf(store) != first || d.Current.Number != 3 || d.Current.Author != "ann" || d.Current.Why != "rolled back to revision 1" || d.RolledBack != 1 {
			t.Errorf("revision %d by %s: %s\n%s", d.Current.Number, d.Current.Author, d.Current.Why, topologyOf(store))
		}
		if n := strings.Count(strings.Join(store.events, " "), "RolledBack"); n != 2 {
			t.Errorf("%d events, want one that somebody went back and one that changes wait", n)
		}
		ask(plandoc.AnnotationApprove, "123", "")
		if got := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; !strings.HasSuffix(got, `; its value "123" is another digest`) || topologyOf(store) != first {
			t.Errorf("a wrong digest: held %q", got)
		}
		ask(plandoc.AnnotationApprove, store.plan(t).Held[0].Digest, "bob")
		d = store.plan(t)
		if topologyOf(store) != second || d.Current.Number != 4 || d.Current.Author != "bob" || d.RolledBack != 0 || d.Held != nil {
			t.Errorf("revision %d by %s, held %+v\n%s", d.Current.Number, d.Current.Author, d.Held, topologyOf(store))
		}
		want := map[string]string{plandoc.AnnotationRevision: "4", plandoc.AnnotationDigest: d.Current.Digest}
		for key, value := range store.get("slurm/quoin-slurm").Annotations {
			if key != plandoc.AnnotationPublished && want[key] != value {
				t.Errorf("annotation %s=%s is left", key, value)
			}
		}
	})
}

// TestPlanUnreadable finds a plan that nobody can read: all stays until it is removed. Slurm can be
// asked, but its jobs cannot be judged by that plan.
func TestPlanUnreadable(t *testing.T) {
	store := newMemory(racks(t))
	pubs := complete(t, Publication{})
	inBubble(t, store, pubs, func() { store.pass(time.Hour) })
	first := store.get("slurm/quoin-slurm").Clone()
	store.plans["default"] = []byte("x")
	store.snap = racksWithout(t, 1)
	prepare := func(p *Publisher) {
		slurm := &testSlurm{}
		slurm.reads(time.Now().Add(time.Minute))
		slurm.asks(p)
		p.jobs = occupancy.New(p.options.Slurm)
	}
	inBubbleWith(t, store, pubs, prepare, func(*Publisher) {
		store.pass(time.Hour)
		got := store.get("slurm/quoin-slurm")
		if diff := cmp.Diff(first.Files, got.Files); diff != "" || !strings.HasPrefix(got.Annotations[plandoc.AnnotationHeldReason], "PlanUnreadable: ") {
			t.Errorf("held %q (-want +got):\n%s", got.Annotations[plandoc.AnnotationHeldReason], diff)
		}
		store.edit(func() { clear(store.plans) })
		store.pass(time.Hour)
		if d := store.plan(t); d.Current.Number != 2 || len(d.History) != 1 || d.History[0].Why != "taken over from the published files" || strings.Contains(topologyOf(store), "gb200-[001-018]") {
			t.Errorf("revision %d, history %d\n%s", d.Current.Number, len(d.History), topologyOf(store))
		}
	})
}

// TestPlanDamaged damages and deletes the stored plan of a publisher that runs, while nothing
// else changes: it is noticed, and made again when it is gone.
func TestPlanDamaged(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		first := store.get("slurm/quoin-slurm").Clone()
		store.edit(func() { store.plans["default"] = []byte("x") })
		store.pass(time.Minute)
		if held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(held, "PlanUnreadable: ") {
			t.Errorf("held %q", held)
		}
		store.edit(func() { clear(store.plans) })
		store.pass(time.Minute)
		if d := store.plan(t); d.Current.Number != 1 || d.Current.Why != "taken over from the published files" {
			t.Errorf("revision %d: %s", d.Current.Number, d.Current.Why)
		}
		if diff := cmp.Diff(first.Files, store.get("slurm/quoin-slurm").Files); diff != "" {
			t.Errorf("files (-before +after):\n%s", diff)
		}
		loads := store.planLoads
		store.pass(time.Hour)
		if store.planLoads != loads {
			t.Errorf("read %d times at rest", store.planLoads-loads)
		}
	})
}
