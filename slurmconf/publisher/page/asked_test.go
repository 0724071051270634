package page_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/live"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// answering plays a Slurm that may be away.
type answering struct {
	state live.State
	away  atomic.Bool
	asked atomic.Int64
}

func (s *answering) Ask(context.Context, live.Question) (*live.State, error) {
	s.asked.Add(1)
	if s.away.Load() {
		return nil, errors.New("slurmctld is away")
	}
	return &s.state, nil
}

// TestAsked shows the jobs of a Slurm, and asks it while somebody looks, at most every ten seconds.
func TestAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &answering{state: live.State{Partitions: map[string]string{"p": ""}, Nodes: map[string]live.Node{},
			Jobs: []live.Job{
				{ID: "7", Array: "5_2", Name: "train", User: "ada", Account: "ml", Partition: "p", Nodes: "n[1-2,5-6]", GPUs: []string{"gpu:gb200:4(IDX:0-3)", "gpu:a:1(IDX:0),gpu:b:2(IDX:2-3)", "gpu:2"}, Segment: 4, Start: time.Unix(60, 0)},
				{ID: "8", Partition: "p", Nodes: "n3", Start: time.Unix(60, 0)}, {ID: "9", Nodes: "n[1-"}}}}
		for _, n := range []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"} {
			s.state.Nodes[n] = live.Node{State: "ALLOCATED", Partitions: "p"}
		}
		clusters, err := publication.Compile(nil)
		if err != nil {
			t.Fatal(err)
		}
		keeper := occupancy.New(clusters, func(*publication.Cluster) live.Asker { return s }, slog.New(slog.DiscardHandler))
		asked := page.NewAsked(keeper)
		published := []slurmconf.Topology{{Name: "nvl", Default: true, Block: &slurmconf.BlockTopology{Sizes: []int{4}, Blocks: []slurmconf.Block{{Name: "b1", Nodes: "n[1-4]"}, {Name: "b2", Nodes: "n[5-8]"}}}}}
		see := func() (map[string]string, []picture.Job, error) {
			states, jobs, err := asked.Seen("default", published)
			synctest.Wait()
			return states, jobs, err
		}
		if states, jobs, err := see(); states != nil || jobs != nil || err != nil {
			t.Errorf("before the answer: %v, %v, %v", states, jobs, err)
		}
		states, jobs, err := see()
		want := []picture.Job{{ID: "5_2", Name: "train", User: "ada", Account: "ml", Partition: "p", Nodes: []string{"n1", "n2", "n5", "n6"}, GPUs: map[string]string{"n1": "0-3", "n2": "0,2-3"}, Segment: 4, Blocks: 2, Fewest: 2, Note: "2 blocks; segment 4 got 2+2"},
			{ID: "8", Partition: "p", Nodes: []string{"n3"}, GPUs: map[string]string{}, Blocks: 1, Fewest: 1}}
		if diff := cmp.Diff(want, jobs); diff != "" || err != nil || len(states) != 8 || states["n4"] != "ALLOCATED" {
			t.Errorf("states %v, error %v, jobs (-want +got):\n%s", states, err, diff)
		}
		if n := s.asked.Load(); n != 1 {
			t.Errorf("asked %d times, want once in ten seconds", n)
		}
		s.away.Store(true)
		time.Sleep(11 * time.Second)
		if _, _, err := see(); err != nil {
			t.Error(err)
		}
		if _, jobs, err := see(); err == nil || len(jobs) != 2 {
			t.Errorf("Slurm is away: error %v, %d jobs, want the last ones", err, len(jobs))
		}
		time.Sleep(occupancy.Stale)
		if states, jobs, err := see(); err == nil || jobs != nil || states != nil {
			t.Errorf("away for long: %v, %v, %v", states, jobs, err)
		}
		if states, _, err := asked.Seen("other", published); states != nil || err != nil {
			t.Errorf("nobody can be asked: %v, %v", states, err)
		}
	})
}
