package publisher

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/series"
)

// TestOccupancy publishes, and serves what Slurm says of jobs and of free segments, as long as
// it leads. No pod says how nodes are.
func TestOccupancy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(racks(t))
		store.changes = make(chan struct{}, 1) // of the bubble
		reg := prometheus.NewRegistry()
		slurm := &testSlurm{jobs: []string{"gb200-[001-009,019-027]"}, segment: 18}
		pubs := complete(t, Publication{Slurm: publication.Slurm{Scontrol: "scontrol"}})
		pub := New(store, pubs, Options{Slurm: map[string]*client.Client{"default": client.New("default", slurm, slog.New(slog.DiscardHandler))}}, NewMetrics(reg), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { _ = pub.Ask(ctx) }()
		go func() { done <- pub.Run(ctx) }()
		store.pass(10 * time.Minute)
		err := testutil.GatherAndCompare(reg, strings.NewReader(`# HELP quoin_job_split_segments Segments of a running job that are not together. got has the nodes in each block.
# TYPE quoin_job_split_segments gauge
quoin_job_split_segments{got="9+9",job_id="1",publication="default",segment="18",topology="nvl"} 1
`), "quoin_job_split_segments")
		if err != nil {
			t.Error(err)
		}
		values := series.Values(t, reg)
		free, stranded := values[`quoin_free_segments{publication="default",size="18",topology="nvl"}`], values[`quoin_stranded_gpus{publication="default",size="18",topology="nvl"}`]
		if free != 2 || stranded != 18*4 {
			t.Errorf("%g segments of 18 are free, which leave %g GPUs over", free, stranded)
		}
		if v := pub.Occupancy().View("default"); len(v.Jobs) != 1 || len(v.Jobs[0].Judgements) != 2 {
			t.Errorf("%+v", v.Jobs)
		}
		store.change(racksMoved(t, 39))
		store.pass(10 * time.Minute)
		if held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(held, "BigChange") {
			t.Errorf("held: %q", held)
		}
		if diff := cmp.Diff(values, series.Values(t, reg), cmpopts.IgnoreMapEntries(func(name string, _ float64) bool { return !strings.HasPrefix(name, "quoin_block_nodes") })); diff != "" {
			t.Errorf("a change that is held (-before +after):\n%s", diff)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n, err := testutil.GatherAndCount(reg, "quoin_job_split_segments", "quoin_job_blocks", "quoin_free_segments"); n != 0 || err != nil {
			t.Errorf("%d series of one that does not lead, %v", n, err)
		}
	})
}
