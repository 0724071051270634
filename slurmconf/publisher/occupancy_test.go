package publisher

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
)

// busySlurm has four racks of 18 idle nodes and one job, which Slurm has split.
type busySlurm struct{}

func (busySlurm) Ask(_ context.Context, q client.Question) (*slurmctld.State, error) {
	state := &slurmctld.State{Read: time.Now(), Nodes: map[string]slurmctld.Node{}}
	for i := range 72 {
		state.Nodes[nodeName(i+1)] = slurmctld.Node{Registered: true, State: "IDLE"}
	}
	for i := range 9 {
		state.Nodes[nodeName(i+1)] = slurmctld.Node{Registered: true, State: "ALLOCATED"}
	}
	if q.Jobs {
		state.Jobs = []slurmctld.Job{{ID: "7", Nodes: "gb200-[001-009,019-027]", Segment: 18, Start: time.Now()}}
	}
	return state, nil
}

func (busySlurm) Reconfigure(context.Context) error { return nil }

// TestOccupancy publishes, and serves what Slurm says of jobs and of free segments, as long as
// it leads. No pod says how nodes are.
func TestOccupancy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(racks(t))
		store.changes = make(chan struct{}, 1) // of the bubble
		reg := prometheus.NewRegistry()
		pubs := complete(t, Publication{Slurm: publication.Slurm{Scontrol: "scontrol"}})
		pub := New(store, pubs, Options{Slurm: map[string]*client.Client{"default": client.New("default", busySlurm{}, slog.New(slog.DiscardHandler))}}, NewMetrics(reg), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- pub.Run(ctx) }()
		store.pass(10 * time.Minute)
		err := testutil.GatherAndCompare(reg, strings.NewReader(`# HELP quoin_job_split_segments Segments of a running job that are not together. got has the nodes in each block.
# TYPE quoin_job_split_segments gauge
quoin_job_split_segments{got="9+9",job_id="7",publication="default",segment="18",topology="nvl"} 1
`), "quoin_job_split_segments")
		if err != nil {
			t.Error(err)
		}
		if free := valueOf(t, reg, "quoin_free_segments", `size:18`); free != 3 {
			t.Errorf("%g segments of 18 are free", free)
		}
		if v := pub.Occupancy().View("default"); len(v.Jobs) != 1 || len(v.Jobs[0].Judgements) != 2 {
			t.Errorf("%+v", v.Jobs)
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

// valueOf returns the value of the series of a name with a label, as NAME:VALUE.
func valueOf(t *testing.T, reg prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && fmt.Sprint(l.GetName(), ":", l.GetValue()) == label {
					return m.GetGauge().GetValue()
				}
			}
		}
	}
	return -1
}
