package client

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
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// slurm plays a Slurm with one node, one job and one reservation.
type slurm struct {
	mu    sync.Mutex
	asked []Question
	takes time.Duration
	err   error
	read  time.Time
	jobs  []slurmctld.Job
}

func (s *slurm) Ask(ctx context.Context, q Question) (*slurmctld.State, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.takes):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, q)
	said := &slurmctld.State{Read: s.read}
	for _, name := range q.Topologies {
		said.Topologies = append(said.Topologies, topology.Topology{Name: name})
	}
	if q.Nodes {
		said.Nodes = map[string]slurmctld.Node{"n1": {State: "IDLE"}}
	}
	if q.Jobs {
		said.Jobs, said.Partitions = []slurmctld.Job{{ID: "7"}}, map[string]string{"p": ""}
	}
	if q.Job != "" {
		said.Jobs = s.jobs
	}
	if q.Reservations {
		said.Reservations = []slurmctld.Reservation{{Name: "r"}}
	}
	return said, s.err
}

func (s *slurm) Reconfigure(context.Context) error { return s.err }

func (s *slurm) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// questions returns what was asked since the last call.
func (s *slurm) questions() []Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// inBubble runs a test of a Client in fake time.
func inBubble(t *testing.T, s *slurm, test func(t *testing.T, c *Client, log *strings.Builder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := &strings.Builder{}
		test(t, New("default", s, slog.New(slog.NewTextHandler(log, nil))), log)
	})
}

// TestClientAge asks only for what is not young enough, and keeps what it has.
func TestClientAge(t *testing.T) {
	s := &slurm{}
	inBubble(t, s, func(t *testing.T, c *Client, _ *strings.Builder) {
		start := time.Now()
		asks := func(what string, q Question, age time.Duration, want ...Question) Answer {
			t.Helper()
			a := c.Newer(t.Context(), q, time.Now().Add(-age))
			if diff := cmp.Diff(want, s.questions()); diff != "" || a.Err != nil {
				t.Errorf("%s: %v, asked (-want +got):\n%s", what, a.Err, diff)
			}
			return a
		}
		if a := c.Last(); !a.Asked.Nodes.IsZero() || a.State.Nodes != nil || a.Err != nil {
			t.Errorf("before the first question: %+v", a)
		}
		both, nodes := Question{Nodes: true, Jobs: true, Details: true}, Question{Nodes: true}
		asks("the first", both, time.Minute, both)
		time.Sleep(10 * time.Second)
		asks("young enough", both, 10*time.Second)
		asks("of which there is nothing yet", Question{Nodes: true, Reservations: true}, 10*time.Second, Question{Reservations: true})
		loaded := Question{Loaded: true, Topologies: []string{"nvl"}}
		asks("what is loaded", loaded, time.Minute, loaded)
		asks("the same again", loaded, time.Minute)
		other := Question{Loaded: true, Topologies: []string{"nvl", "fabric"}}
		asks("other topologies", other, time.Minute, other)
		time.Sleep(10 * time.Second)
		asks("nodes alone", nodes, time.Second, nodes)
		a := asks("jobs with nodes, which come after them", Question{Nodes: true, Jobs: true}, 15*time.Second, Question{Nodes: true, Jobs: true})
		if len(a.State.Topologies) != 2 || len(a.State.Nodes) != 1 || len(a.State.Jobs) != 1 || len(a.State.Reservations) != 1 || a.State.Partitions == nil {
			t.Errorf("it has forgotten something: %+v", a.State)
		}
		want := Asked{Loaded: start.Add(10 * time.Second), Nodes: start.Add(20 * time.Second), Jobs: start.Add(20 * time.Second), Reservations: start.Add(10 * time.Second)}
		if diff := cmp.Diff(want, a.Asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		// slurmrestd says with each answer when slurmctld has read its files, if it knows.
		s.set(func() { s.read = start })
		if a := asks("nodes of slurmrestd", nodes, -1, nodes); !a.State.Read.Equal(start) || !a.Asked.Loaded.Equal(time.Now()) || len(a.State.Topologies) != 2 {
			t.Errorf("%+v", a)
		}
	})
}

// TestClientAsksOnce has eight callers at the same time, and one who comes meanwhile.
func TestClientAsksOnce(t *testing.T) {
	s := &slurm{takes: time.Second}
	inBubble(t, s, func(t *testing.T, c *Client, _ *strings.Builder) {
		var callers sync.WaitGroup
		for i := range 9 {
			callers.Go(func() {
				if i == 8 {
					time.Sleep(time.Second / 2)
				}
				if a := c.Newer(t.Context(), Question{Nodes: true}, time.Now()); a.Err != nil || len(a.State.Nodes) != 1 {
					t.Errorf("%v, %d nodes", a.Err, len(a.State.Nodes))
				}
			})
		}
		callers.Wait()
		if n := len(s.questions()); n != 1 {
			t.Errorf("%d questions", n)
		}
		// A caller that goes away leaves the others their turn, and is no failure of Slurm.
		time.Sleep(time.Minute)
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		callers.Go(func() {
			if a := c.Newer(gone, Question{Nodes: true}, time.Now()); !errors.Is(a.Err, context.DeadlineExceeded) || len(a.State.Nodes) != 1 {
				t.Errorf("gone: %v, %d nodes", a.Err, len(a.State.Nodes))
			}
		})
		synctest.Wait()
		if a := c.Newer(t.Context(), Question{Nodes: true}, time.Now()); a.Err != nil || !a.Asked.Nodes.After(time.Now().Add(-2*time.Second)) {
			t.Errorf("%v, asked at %v", a.Err, a.Asked.Nodes)
		}
		callers.Wait()
		if a := c.Last(); a.Failures != 0 || a.Err != nil {
			t.Errorf("%+v", a)
		}
	})
}

// TestClientRun has askers who want something at some time, replace what they want, and want more after it.
func TestClientRun(t *testing.T) {
	s := &slurm{takes: time.Second}
	inBubble(t, s, func(t *testing.T, c *Client, _ *strings.Builder) {
		start := time.Now()
		at := func(d time.Duration) time.Time { return start.Add(d * time.Second) }
		var done []string
		want := func(asker string, w Want, next ...*Want) *Want {
			w.Then = func(_ context.Context, a *Answer) *Want {
				done = append(done, fmt.Sprint(asker, " ", time.Since(start), " ", len(s.questions()), " ", a.Err))
				return append(next, nil)[0]
			}
			return &w
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		heard := make(chan struct{}, 1)
		running.Go(func() { c.Run(ctx, heard) })
		nodes, jobs := Question{Nodes: true}, Question{Nodes: true, Jobs: true}
		synctest.Wait()
		// Two askers at once: the answer about jobs has nodes that are new enough for the other one, too.
		c.Want("nodes", want("nodes", Want{Question: nodes, At: at(-1), Than: at(-1)}, want("again", Want{Question: nodes, At: at(30), Than: at(20)})))
		c.Want("jobs", want("jobs", Want{Question: jobs, At: at(0), Than: at(0)}, want("jobs later", Want{Question: jobs, At: at(60), Than: at(60)})))
		c.Want("gone", want("gone", Want{Question: nodes, At: at(1000)}))
		c.Want("waits", want("waits", Want{Question: nodes, At: at(9000)}))
		c.Want("replaced", want("late", Want{Question: nodes, At: at(20), Than: at(20)}))
		time.Sleep(10 * time.Second)
		<-heard
		c.Want("replaced", want("early", Want{Question: nodes, At: at(12), Than: at(12)}))
		c.Want("gone", nil)
		time.Sleep(time.Minute)
		// An asker wants something else while Slurm is asked: what would have come next does not count.
		<-heard
		c.Want("nodes", want("slow", Want{Question: nodes, At: at(70), Than: at(70)}, want("never", Want{Question: nodes, At: at(71)})))
		time.Sleep(time.Second / 2)
		c.Want("nodes", want("asks nothing", Want{}))
		time.Sleep(time.Minute)
		s.set(func() { s.err = errors.New("no route") })
		c.Want("nodes", want("nothing again", Want{}))
		c.Want("fails", want("fails", Want{Question: nodes, Than: time.Now()}))
		time.Sleep(time.Hour)
		cancel()
		running.Wait()
		if diff := cmp.Diff([]string{"jobs 1s 1 <nil>", "nodes 1s 0 <nil>", "early 13s 1 <nil>", "again 31s 1 <nil>", "jobs later 1m1s 1 <nil>", "slow 1m11s 1 <nil>", "asks nothing 1m11s 0 <nil>",
			"fails 2m11.5s 1 no route", "nothing again 2m11.5s 0 <nil>"}, done); diff != "" {
			t.Errorf("asker, when, questions, error (-want +got):\n%s", diff)
		}
		if a := c.Last(); a.Failures != 1 {
			t.Errorf("%d failures of questions, want 1", a.Failures)
		}
	})
}

// TestClientFails keeps the last answer, logs the failure once and its end once, and leaves Slurm alone
// for longer and longer.
func TestClientFails(t *testing.T) {
	s := &slurm{}
	inBubble(t, s, func(t *testing.T, c *Client, log *strings.Builder) {
		nodes := Question{Nodes: true}
		good := c.Newer(t.Context(), nodes, time.Now())
		s.set(func() { s.err = errors.New("no route") })
		time.Sleep(time.Hour)
		s.questions()
		var at []time.Duration
		for start := time.Now(); time.Since(start) < 4*time.Minute; time.Sleep(time.Second) {
			a := c.Newer(t.Context(), nodes, time.Now())
			if a.Err == nil || len(a.State.Nodes) != 1 || a.Asked != good.Asked {
				t.Fatalf("not the last answer: %+v", a)
			}
			if len(s.questions()) > 0 {
				at = append(at, time.Since(start))
			}
		}
		if diff := cmp.Diff([]time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 125 * time.Second, 180 * time.Second, 235 * time.Second}, at); diff != "" {
			t.Errorf("asked at (-want +got):\n%s", diff)
		}
		if a := c.Newer(t.Context(), nodes, good.Asked.Nodes); a.Err != nil || len(s.questions()) > 0 {
			t.Errorf("the last answer will do: %v", a.Err)
		}
		if a := c.Last(); a.Failures != len(at) {
			t.Errorf("%d failures, want %d", a.Failures, len(at))
		}
		s.set(func() { s.err = nil })
		time.Sleep(time.Minute)
		if a := c.Newer(t.Context(), nodes, time.Now()); a.Err != nil || a.Failures != 0 || !a.Asked.Nodes.Equal(time.Now()) {
			t.Errorf("Slurm is back: %+v", a)
		}
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, `level=WARN msg="Slurm does not answer" publication=default err="no route"`) || !strings.Contains(text, `level=INFO msg="Slurm answers again" publication=default after=5m0s`) {
			t.Errorf("log:\n%s", text)
		}
	})
}

// TestClientHangs asks a Slurm that never answers. The question ends, and the next one comes much later.
func TestClientHangs(t *testing.T) {
	s := &slurm{takes: time.Hour}
	inBubble(t, s, func(t *testing.T, c *Client, _ *strings.Builder) {
		start := time.Now()
		a := c.Newer(t.Context(), Question{Nodes: true, Jobs: true}, time.Now())
		if took := time.Since(start); took != timeout+2*leastNodes*timeoutNode || !errors.Is(a.Err, context.DeadlineExceeded) {
			t.Errorf("%v after %s", a.Err, took)
		}
		if pause := time.Until(a.Next); pause < 3*time.Minute || pause > longPause {
			t.Errorf("the next question is in %s", pause)
		}
	})
}

// TestClientSlow leaves a slow Slurm alone, but for what is new and what is quick.
func TestClientSlow(t *testing.T) {
	s := &slurm{takes: 4 * time.Second}
	inBubble(t, s, func(t *testing.T, c *Client, _ *strings.Builder) {
		nodes := Question{Nodes: true}
		for start := time.Now(); time.Since(start) < 2*time.Minute; time.Sleep(time.Second) {
			c.Newer(t.Context(), nodes, time.Now())
		}
		if n := len(s.questions()); n != 6 {
			t.Errorf("%d questions in two minutes, want each 20 s", n)
		}
		c.Newer(t.Context(), nodes, time.Now())
		s.questions()
		// Jobs that nobody has asked for come with nodes that are not older than they.
		both, loaded := Question{Nodes: true, Jobs: true}, Question{Loaded: true}
		for _, want := range [][]Question{{both}, {}, {loaded}} {
			c.Newer(t.Context(), append(want, both)[0], time.Now())
			if diff := cmp.Diff(want, s.questions(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		}
	})
}

func TestClientJob(t *testing.T) {
	s := &slurm{}
	inBubble(t, s, func(t *testing.T, c *Client, log *strings.Builder) {
		if _, err := c.Job(t.Context(), "7"); !errors.Is(err, ErrNoJob) {
			t.Errorf("no such job: %v", err)
		}
		s.jobs = []slurmctld.Job{{ID: "7", GPUs: []string{"gpu:4(IDX:0-3)"}}}
		if j, err := c.Job(t.Context(), "7"); err != nil || j.ID != "7" || len(j.GPUs) != 1 {
			t.Errorf("%+v, %v", j, err)
		}
		s.err = errors.New("Invalid job id specified")
		if _, err := c.Job(t.Context(), "7"); err == nil || err.Error() != "job 7: Invalid job id specified" {
			t.Errorf("error %v", err)
		}
		if a := c.Last(); a.Failures != 0 || log.String() != "" || !a.Asked.Jobs.IsZero() {
			t.Errorf("a job that has ended counts as a failure of Slurm: %+v; log:\n%s", a, log)
		}
		if err := c.Reconfigure(t.Context()); !errors.Is(err, s.err) {
			t.Errorf("reconfigure: %v", err)
		}
		c.Newer(t.Context(), Question{Nodes: true}, time.Now())
		s.questions()
		if _, err := c.Job(t.Context(), "7"); !errors.Is(err, s.err) || len(s.questions()) > 0 {
			t.Errorf("a Slurm that did not answer just now: %v", err)
		}
		time.Sleep(firstPause)
		s.err = nil
		if j, err := c.Job(t.Context(), "7"); err != nil || j.ID != "7" {
			t.Errorf("after the pause: %+v, %v", j, err)
		}
	})
}
