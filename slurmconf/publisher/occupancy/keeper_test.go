package occupancy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

// slurm plays a Slurm of nodes n1 to n12.
type slurm struct {
	mu    sync.Mutex
	asked []time.Time
	jobs  []slurmctld.Job
	err   error
	takes time.Duration
}

func (s *slurm) Ask(ctx context.Context, q client.Question) (*slurmctld.State, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.takes):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, time.Now())
	if s.err != nil {
		return nil, s.err
	}
	state := &slurmctld.State{Nodes: map[string]slurmctld.Node{}, Jobs: s.jobs, Partitions: map[string]string{"p": ""}}
	for i := 1; i <= 12; i++ {
		state.Nodes[fmt.Sprint("n", i)] = slurmctld.Node{State: "IDLE"}
	}
	if !q.Jobs || !q.Nodes {
		return nil, errors.New("want nodes and jobs")
	}
	return state, nil
}

func (s *slurm) Reconfigure(context.Context) error { return nil }

func (s *slurm) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *slurm) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// racks are three blocks of four nodes, and two leaf switches.
func racks() []topology.Topology {
	return []topology.Topology{
		{Name: "nvl", Default: true, Kind: "block", Sizes: []int{4}, Blocks: []topology.Block{{Name: "b1", Nodes: hosts.In("n[1-4]")}, {Name: "b2", Nodes: hosts.In("n[5-8]")}, {Name: "b3", Nodes: hosts.In("n[9-12]")}}},
		{Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "s1", Nodes: hosts.In("n[1-6]")}, {Name: "s2", Nodes: hosts.In("n[7-12]")}, {Name: "root", Children: hosts.In("s[1-2]")}}},
	}
}

func newKeeper(t *testing.T, s *slurm) (*Keeper, *strings.Builder) {
	t.Helper()
	text := &strings.Builder{}
	log := slog.New(slog.NewTextHandler(text, nil))
	return New(map[string]*client.Client{name: client.New(name, s, log)}), text
}

const name = "default"

// asks runs the Client of a Keeper until the returned function is called.
func asks(t *testing.T, k *Keeper) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() { k.sites[name].slurm.Run(ctx, make(chan struct{}, 1)) })
	return func() {
		cancel()
		asking.Wait()
	}
}

// follow has a Keeper follow its Slurm until the returned function is called.
func follow(t *testing.T, k *Keeper) (end func()) {
	t.Helper()
	ended := asks(t, k)
	k.Follow()
	return func() {
		k.Forget()
		ended()
	}
}

// job is a job of partition p.
func job(id, nodes string, segment int) slurmctld.Job {
	return slurmctld.Job{ID: id, Nodes: nodes, Partition: "p", Segment: segment, Start: time.Unix(60, 0)}
}

func words(v *View) (all []string) {
	for i := range v.Jobs {
		for k := range v.Jobs[i].Judgements {
			all = append(all, v.Jobs[i].ID+" "+v.Jobs[i].Judgements[k].Words())
		}
	}
	return all
}

// TestRun asks once a minute while it runs, and when topologies change.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slurm{jobs: []slurmctld.Job{job("1", "n[1-2,5-6]", 2)}}
		k, _ := newKeeper(t, s)
		end := follow(t, k)
		synctest.Wait()
		if s.questions() != 0 || !k.Asks(name) || k.Asks("other") {
			t.Errorf("%d questions before there is a place", s.questions())
		}
		k.Set(name, racks())
		synctest.Wait()
		first := []string{"1 2 blocks, 1 would be large enough", "1 1 leaf switch"}
		check := func(questions int, want ...string) {
			t.Helper()
			v := k.View(name)
			if diff := cmp.Diff(want, words(&v)); diff != "" || s.questions() != questions {
				t.Errorf("%d questions, want %d (-want +got):\n%s", s.questions(), questions, diff)
			}
		}
		check(1, first...)
		s.set(func() { s.jobs = append(s.jobs, job("2", "n[10-11]", 0)) })
		time.Sleep(59 * time.Second)
		check(1, first...)
		time.Sleep(2 * time.Second) // between two questions
		check(2, first[0], first[1], "2 1 block", "2 1 leaf switch")
		k.Set(name, racks())                                                        // the same again
		k.Set(name, append(racks(), topology.Topology{Name: "flat", Kind: "flat"})) // the same places
		synctest.Wait()
		check(2, first[0], first[1], "2 1 block", "2 1 leaf switch")
		time.Sleep(time.Minute)
		check(3, first[0], first[1], "2 1 block", "2 1 leaf switch")
		// The job runs again under its id.
		s.set(func() { s.jobs = []slurmctld.Job{job("1", "n[1-2,5-6]", 4)}; s.jobs[0].Start = time.Unix(69, 0) })
		time.Sleep(time.Minute)
		check(4, "1 2 blocks; segment 4 got 2+2", "1 1 leaf switch")
		end()
		if v := k.View(name); !v.Asked.IsZero() || v.Jobs != nil || v.Nodes != nil {
			t.Errorf("it remembers %+v", v)
		}
	})
}

// TestNobodyToAsk has a publication that does not say how Slurm is asked.
func TestNobodyToAsk(t *testing.T) {
	k := New(nil)
	k.Set(name, racks())
	k.Soon(name)
	if v := k.Fresher(t.Context(), name); k.Asks(name) || !v.Asked.IsZero() || v.Nodes != nil {
		t.Errorf("%+v", v)
	}
}

// TestSoon has somebody look all the time, and once, while the Keeper follows Slurm and while it does not.
func TestSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slurm{}
		k, _ := newKeeper(t, s)
		defer asks(t, k)()
		all := 0
		check := func(what string, want int) {
			t.Helper()
			if n := s.questions() - all; n != want {
				t.Errorf("%s: %d questions, want %d", what, n, want)
			}
			all = s.questions()
		}
		k.Soon(name)
		time.Sleep(time.Hour)
		check("one look at a Slurm that is not followed", 1)
		for range 30 {
			k.Soon(name)
			time.Sleep(2 * time.Second)
		}
		check("a minute of looks, each 2 s", 5)
		k.Follow()
		time.Sleep(time.Hour + time.Second)
		check("an hour that is followed", 60)
		k.Soon(name)
		time.Sleep(58 * time.Second)
		check("one look just after an answer", 0)
		k.Forget()
		time.Sleep(time.Hour)
		check("an hour after", 0)
		k.Soon(name)
		time.Sleep(time.Hour)
		check("one look after", 1)
	})
}

// TestFresher lets several readers ask at once, and again before ten seconds are over.
func TestFresher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slurm{takes: time.Second}
		k, _ := newKeeper(t, s)
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				if v := k.Fresher(t.Context(), name); len(v.Nodes) != 12 || v.Err != nil {
					t.Errorf("%d nodes, %v", len(v.Nodes), v.Err)
				}
			})
		}
		readers.Wait()
		k.Fresher(t.Context(), name)
		if s.questions() != 1 {
			t.Errorf("%d questions", s.questions())
		}
		time.Sleep(askPause)
		k.Fresher(t.Context(), name)
		k.Fresher(t.Context(), name)
		if s.questions() != 2 {
			t.Errorf("%d questions", s.questions())
		}
		if v := k.Fresher(t.Context(), "other"); !v.Asked.IsZero() {
			t.Errorf("other: %+v", v)
		}
		if v := k.View(name); len(v.Nodes) != 12 || v.Nodes["n1"].State != "IDLE" {
			t.Errorf("nodes %v", v.Nodes)
		}
		// A reader that goes away leaves the others their turn.
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		time.Sleep(askPause)
		if v := k.Fresher(gone, name); !errors.Is(v.Err, context.DeadlineExceeded) || len(v.Nodes) != 12 {
			t.Errorf("a reader that goes away: %d nodes, %v", len(v.Nodes), v.Err)
		}
		k.Fresher(t.Context(), name)
		if v := k.View(name); s.questions() != 3 || v.Err != nil {
			t.Errorf("%d questions, %v", s.questions(), v.Err)
		}
	})
}

// TestFails logs one error once, keeps the last answer, and serves it for five minutes.
func TestFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slurm{jobs: []slurmctld.Job{job("1", "n[1-2]", 0)}}
		k, log := newKeeper(t, s)
		end := follow(t, k)
		k.Set(name, racks())
		synctest.Wait()
		s.set(func() { s.err = errors.New("no route") })
		time.Sleep(4*time.Minute + 30*time.Second) // between two questions
		v := k.View(name)
		if v.Err == nil || len(v.Jobs) != 1 || len(v.Nodes) != 12 || !v.Fresh(time.Now()) || strings.Count(log.String(), "no route") != 1 {
			t.Errorf("error %v, %d jobs, %d states; log:\n%s", v.Err, len(v.Jobs), len(v.Nodes), log)
		}
		time.Sleep(time.Minute)
		if v = k.View(name); v.Fresh(time.Now()) {
			t.Error("a stale answer counts as fresh")
		}
		s.set(func() { s.err = nil })
		time.Sleep(time.Minute)
		if v := k.View(name); v.Err != nil || !v.Fresh(time.Now()) {
			t.Errorf("%+v", v)
		}
		end()
	})
}

// TestSlowSlurm asks a Slurm that takes ten seconds less often.
func TestSlowSlurm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slurm{takes: 10 * time.Second}
		k, _ := newKeeper(t, s)
		end := follow(t, k)
		k.Set(name, racks())
		time.Sleep(61*time.Minute + 30*time.Second) // between two questions
		if n := s.questions(); n < 15 || n > 18 {
			t.Errorf("%d questions in an hour, want one in 200 s or somewhat more", n)
		}
		end()
	})
}

func TestSeries(t *testing.T) {
	s := &slurm{jobs: []slurmctld.Job{job("1", "n[1-3,5-7,9-10]", 4), job("2", "n11", 0), job("3", "n4,n8", 1)}}
	k, _ := newKeeper(t, s)
	reg := prometheus.NewRegistry()
	series := NewSeries(reg)
	if err := testutil.GatherAndCompare(reg, strings.NewReader("")); err != nil {
		t.Error(err)
	}
	series.Watch(k, nil, nil)
	k.Set(name, racks())
	k.Fresher(t.Context(), name)
	err := testutil.GatherAndCompare(reg, strings.NewReader(`# HELP quoin_job_blocks Blocks that a running job of two nodes or more uses.
# TYPE quoin_job_blocks gauge
quoin_job_blocks{job_id="1",publication="default",topology="nvl"} 3
quoin_job_blocks{job_id="3",publication="default",topology="nvl"} 2
# HELP quoin_job_fewest_blocks The fewest of a running job's blocks that are large enough for it, without other jobs.
# TYPE quoin_job_fewest_blocks gauge
quoin_job_fewest_blocks{job_id="1",publication="default",topology="nvl"} 3
quoin_job_fewest_blocks{job_id="3",publication="default",topology="nvl"} 1
# HELP quoin_job_fewest_leaf_switches The fewest of a running job's leaf switches that are large enough for it, without other jobs.
# TYPE quoin_job_fewest_leaf_switches gauge
quoin_job_fewest_leaf_switches{job_id="1",publication="default",topology="fabric"} 2
quoin_job_fewest_leaf_switches{job_id="3",publication="default",topology="fabric"} 1
# HELP quoin_job_leaf_switches Leaf switches that a running job of two nodes or more uses.
# TYPE quoin_job_leaf_switches gauge
quoin_job_leaf_switches{job_id="1",publication="default",topology="fabric"} 2
quoin_job_leaf_switches{job_id="3",publication="default",topology="fabric"} 2
# HELP quoin_job_split_segments Segments of a running job that are not together. got has the nodes in each block.
# TYPE quoin_job_split_segments gauge
quoin_job_split_segments{got="",job_id="3",publication="default",segment="1",topology="nvl"} 0
quoin_job_split_segments{got="3+3+2",job_id="1",publication="default",segment="4",topology="nvl"} 2
`), "quoin_job_blocks", "quoin_job_fewest_blocks", "quoin_job_fewest_leaf_switches", "quoin_job_leaf_switches", "quoin_job_split_segments")
	if err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(reg); err != nil || n != 10 {
		t.Errorf("%d series, %v", n, err)
	}
}

// TestSeriesAreBounded has more jobs than have series. The largest have some.
func TestSeriesAreBounded(t *testing.T) {
	s := &slurm{}
	for i := range maxInfos + 50 {
		s.jobs = append(s.jobs, job(fmt.Sprint(i), "n[1-2]", 0))
		s.jobs[i].HoldsGPUs = true
	}
	s.jobs = append(s.jobs, job("large", "n[1-3]", 0))
	s.jobs[len(s.jobs)-1].HoldsGPUs = true
	k, log := newKeeper(t, s)
	reg := prometheus.NewRegistry()
	NewSeries(reg).Watch(k, nil, slog.New(slog.NewTextHandler(log, nil)))
	k.Set(name, racks())
	k.Fresher(t.Context(), name)
	for range 2 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			of, isJobs := map[string]int{"quoin_job_blocks": maxJobs, "quoin_job_info": maxInfos}[f.GetName()]
			found := !isJobs
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					found = found || l.GetValue() == "large"
				}
			}
			if n := len(f.GetMetric()); isJobs && n != of || !found {
				t.Errorf("%s: %d series, the largest job is among them: %t", f.GetName(), n, found)
			}
		}
	}
	if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "have no quoin_job_info") || !strings.Contains(said, "jobs=51 limit=10000") {
		t.Errorf("two looks at jobs that are cut off log %q", said)
	}
}

// TestJobInfo serves what Slurm calls a job with GPUs, while Slurm answers.
func TestJobInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task, other := job("7", "n1", 0), job("8", "nowhere", 0)
		task.Array, task.Name, task.QOS, task.Cluster, task.HoldsGPUs = "5_2", "train \"x\"", "high", "rig", true
		other.Name, other.HoldsGPUs = "elsewhere", true
		s := &slurm{jobs: []slurmctld.Job{task, other, job("9", "n2", 0)}}
		k, _ := newKeeper(t, s)
		end := follow(t, k)
		defer end()
		reg := prometheus.NewRegistry()
		NewSeries(reg).Watch(k, nil, nil)
		const head = "# HELP quoin_job_info 1 for each running job with GPUs, as Slurm says it. At most 10,000 jobs of a publication have it: those with the most nodes.\n# TYPE quoin_job_info gauge\n"
		check := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "quoin_job_info"); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		check("before an answer", "")
		k.Set(name, racks())
		both := head + `quoin_job_info{array_job_id="",cluster="",job_id="8",job_name="elsewhere",publication="default",qos=""} 1
quoin_job_info{array_job_id="5",cluster="rig",job_id="7",job_name="train \"x\"",publication="default",qos="high"} 1
`
		check("two jobs with GPUs", both)
		s.set(func() { s.err = errors.New("no route") })
		time.Sleep(Stale - time.Second)
		check("Slurm does not answer", both)
		time.Sleep(time.Second)
		check("for five minutes", "")
		s.set(func() { s.err, s.jobs = nil, s.jobs[:1] })
		time.Sleep(2 * time.Minute)
		check("one job has ended", head+both[strings.Index(both, `quoin_job_info{array_job_id="5"`):])
	})
}
