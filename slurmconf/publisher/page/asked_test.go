package page_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// answering plays a Slurm that may be away.
type answering struct {
	state slurmctld.State
	away  atomic.Bool
	asked atomic.Int64
}

func (s *answering) Ask(_ context.Context, q client.Question) (*slurmctld.State, error) {
	s.asked.Add(1)
	if s.away.Load() {
		return nil, errors.New("slurmctld is away")
	}
	if q.Job != "" {
		i := slices.IndexFunc(s.state.Jobs, func(j slurmctld.Job) bool { return j.ID == q.Job })
		one := s.state.Jobs[i]
		one.GPUs = []string{"gpu:gb200:2(IDX:1-2)"}
		return &slurmctld.State{Jobs: []slurmctld.Job{one}}, nil
	}
	return &s.state, nil
}

func (s *answering) Reconfigure(context.Context) error { return nil }

// seeing remembers what was seen.
type seeing struct {
	*page.Asked
	view occupancy.View
}

func (s *seeing) Seen(ctx context.Context, publication string, published []topology.Topology) occupancy.View {
	s.view = s.Asked.Seen(ctx, publication, published)
	return s.view
}

// TestAsked shows the jobs of a Slurm, and asks it while somebody looks, at most every ten seconds.
func TestAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &answering{state: slurmctld.State{Partitions: map[string]string{"p": ""}, Nodes: map[string]slurmctld.Node{},
			Jobs: []slurmctld.Job{
				{ID: "7", Array: "5_2", Name: "train", User: "ada", Account: "ml", Partition: "p", Nodes: "n[1-2,5-6]", GPUs: []string{"gpu:gb200:4(IDX:0-3)", "gpu:a:1(IDX:0),gpu:b:2(IDX:2-3)", "gpu:2"}, Segment: 4, Start: time.Unix(60, 0)},
				{ID: "8", Partition: "p", Nodes: "n3", Start: time.Unix(60, 0)}, {ID: "9", Nodes: "n[1-"}}}}
		for _, n := range []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"} {
			s.state.Nodes[n] = slurmctld.Node{State: "ALLOCATED"}
		}
		log := slog.New(slog.DiscardHandler)
		slurm := client.New("default", s, log)
		keeper := occupancy.New(map[string]*client.Client{"default": slurm})
		asked := page.NewAsked(keeper)
		published := []topology.Topology{{Name: "nvl", Default: true, Kind: "block", Sizes: []int{4}, Blocks: []topology.Block{{Name: "b1", Nodes: hosts.In("n[1-4]")}, {Name: "b2", Nodes: hosts.In("n[5-8]")}}}}
		see := func() (map[string]slurmctld.Node, []picture.Job, error) {
			live, site := &seeing{Asked: asked}, &picture.Site{Publication: "default", Plan: &topology.Plan{}}
			known := page.Known{Snapshot: &inputs.Snapshot{}, Inputs: &inputs.Inputs{}, Slurm: live, Published: published}
			known.AddTo(t.Context(), site)
			synctest.Wait()
			if age := time.Since(live.view.Asked); live.view.Nodes != nil && (age < 0 || age > occupancy.Stale) {
				t.Errorf("asked %s ago", age)
			}
			return live.view.Nodes, site.Jobs, live.view.Err
		}
		if _, err := asked.JobGPUs(t.Context(), "default", "8"); err == nil || errors.Is(err, client.ErrNoJob) {
			t.Errorf("a job before the first answer: %v", err)
		}
		if states, jobs, err := see(); states != nil || jobs != nil || err != nil {
			t.Errorf("before the answer: %v, %v, %v", states, jobs, err)
		}
		go slurm.Run(t.Context(), make(chan struct{}, 1))
		synctest.Wait()
		states, jobs, err := see()
		want := []picture.Job{{ID: "5_2", Name: "train", User: "ada", Account: "ml", Partition: "p", Nodes: []string{"n1", "n2", "n5", "n6"}, GPUs: map[string]string{"n1": "0-3", "n2": "0,2-3"}, Segment: 4, Blocks: 2, Fewest: 2, Note: "2 blocks; segment 4 got 2+2"},
			{ID: "8", Partition: "p", Nodes: []string{"n3"}, GPUs: map[string]string{}, Blocks: 1, Fewest: 1}}
		if diff := cmp.Diff(want, jobs); diff != "" || err != nil || len(states) != 8 || states["n4"].State != "ALLOCATED" {
			t.Errorf("states %v, error %v, jobs (-want +got):\n%s", states, err, diff)
		}
		if n := s.asked.Load(); n != 1 {
			t.Errorf("asked %d times, want once in ten seconds", n)
		}
		for id, want := range map[string]map[string]string{"5_2": {"n1": "0-3", "n2": "0,2-3"}, "8": {"n3": "1-2"}} {
			for range 2 { // asked once, for 8
				if gpus, err := asked.JobGPUs(t.Context(), "default", id); err != nil || !cmp.Equal(gpus, want) {
					t.Errorf("job %s: %v, %v", id, gpus, err)
				}
			}
		}
		if n := s.asked.Load(); n != 2 {
			t.Errorf("asked %d times, want once more for job 8", n)
		}
		for _, id := range []string{"", "77"} {
			if _, err := asked.JobGPUs(t.Context(), "default", id); !errors.Is(err, client.ErrNoJob) {
				t.Errorf("job %q: %v", id, err)
			}
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
		if _, err := asked.JobGPUs(t.Context(), "default", "77"); err == nil || errors.Is(err, client.ErrNoJob) || !strings.Contains(err.Error(), "slurmctld is away") {
			t.Errorf("a job when Slurm is away for long: %v", err)
		}
		if seen := asked.Seen(t.Context(), "other", published); seen.Nodes != nil || seen.Err != nil {
			t.Errorf("nobody can be asked: %+v", seen)
		}
	})
}

// TestJob asks the server which GPUs a job has.
func TestJob(t *testing.T) {
	s := troubled(t)
	server := httptest.NewServer(page.New(s, slog.New(slog.DiscardHandler)).Handler())
	defer server.Close()
	few := httptest.NewServer(page.New(&counted{}, slog.New(slog.DiscardHandler)).Handler())
	defer few.Close()
	for _, tt := range []struct {
		url  string
		code int
		want string
	}{
		{server.URL + "/map/job?id=102", 200, `{"gpus":{"gb200-00001":"0-1","gb200-00002":"0-3","gb200-00055":"2"}}`},
		{server.URL + "/map/job?publication=slurm&id=102", 200, `{"gpus":{`},
		{server.URL + "/map/job?publication=other&id=102", 404, "no such publication"},
		{server.URL + "/map/job?id=7", 404, "no such job runs"},
		{server.URL + "/map/job", 404, "no such job runs"},
		{server.URL + "/map/job?id=101", 503, "slurmctld is away"},
		{few.URL + "/map/job?id=102", 404, "no Slurm can be asked"},
	} {
		resp, err := http.Get(tt.url) //nolint:noctx // on this machine
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != tt.code || !strings.Contains(string(text), tt.want) {
			t.Errorf("%s: %d, %v, %s", tt.url, resp.StatusCode, err, text)
		}
	}
}
