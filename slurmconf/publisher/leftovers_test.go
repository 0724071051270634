package publisher

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// TestPublicationIsConfiguredNoLonger takes one of two publications out of the configuration:
// nothing of it changes, and the publisher says so until its plan is deleted.
func TestPublicationIsConfiguredNoLonger(t *testing.T) {
	pubs, snap := contest(t, nil)
	store := newMemory(snap)
	inBubble(t, store, pubs, func() { store.pass(time.Hour) })
	files, plan := store.get("slurm/quoin-slurm-b").Clone(), string(store.plans["b"])
	problems := func(p *Publisher) float64 {
		return testutil.ToFloat64(p.metrics.problems.WithLabelValues("b", ReasonPublicationNotConfigured))
	}
	var metrics *Metrics
	inBubbleWith(t, store, pubs[:1], func(p *Publisher) { metrics, store.refusesList = p.metrics, errors.New("forbidden") }, func(p *Publisher) {
		_, snap := contest(t, map[string]string{"gb200-001": "", "gb200-040": ""})
		store.change(snap)
		store.pass(30 * time.Minute)
		wantIn(t, "what is configured goes on", store, "gb200-001")
		if n := problems(p); n != 0 {
			t.Errorf("%v findings while plans cannot be listed", n)
		}
		store.edit(func() { store.refusesList = nil })
		store.pass(11 * time.Minute)
		if n := problems(p); n != 1 {
			t.Errorf("%v findings, want one", n)
		}
		stored, err := store.Stored(t.Context())
		const commands = `its files stay in slurm/quoin-slurm-b as they are, and so do the annotations of its Nodes; configure it again, or delete its stored plan and its files when no Slurm reads them: remove plan b && remove files slurm/quoin-slurm-b`
		if diff := cmp.Diff(commands, p.leftFiles(stored["b"])); diff != "" || err != nil {
			t.Errorf("what is said of the leftover, %v (-want +got):\n%s", err, diff)
		}
		const renamed = `publication "a" has its files in slurm/quoin-slurm-a now; delete its stored plan, and not the files: remove plan old`
		if diff := cmp.Diff(renamed, p.leftFiles(plandoc.Stored{Place: p.clusters[0].Place(), Files: "slurm/quoin-slurm-a", RemovePlan: "remove plan old"})); diff != "" {
			t.Errorf("what is said after a change of the name (-want +got):\n%s", diff)
		}
		store.pass(24 * time.Hour)
		if diff := cmp.Diff(files, store.get("slurm/quoin-slurm-b")); diff != "" || string(store.plans["b"]) != plan || len(store.notes) != 71 {
			t.Errorf("changed, and %d nodes are annotated (-before +after):\n%s", len(store.notes), diff)
		}
		if n := problems(p); n != 1 {
			t.Errorf("%v findings a day later, want one", n)
		}
		store.edit(func() { delete(store.plans, "b") })
		store.pass(11 * time.Minute)
		if n := problems(p); n != 0 {
			t.Errorf("%v findings after the plan is deleted", n)
		}
	})
	inBubbleWith(t, store, pubs, func(p *Publisher) { metrics = p.metrics }, func(p *Publisher) {
		store.pass(time.Hour)
		if n := problems(p); n != 0 {
			t.Errorf("%v findings with both configured", n)
		}
	})
	inBubbleWith(t, store, pubs[1:], func(p *Publisher) { metrics = p.metrics }, func(*Publisher) { store.pass(time.Hour) })
	if n := testutil.CollectAndCount(metrics.problems, "quoin_publisher_problems"); n != 0 {
		t.Errorf("%d findings of a publisher that does not lead", n)
	}
}
