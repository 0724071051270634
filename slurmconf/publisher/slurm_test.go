package publisher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
)

// testSlurm is a Slurm that has all nodes of the racks. It answers as a test says.
type testSlurm struct {
	mu sync.Mutex // guards what follows

	takes   time.Duration     // until it answers
	silent  bool              // it does not answer
	release slurmconf.Release // 0: it does not say
	late    bool              // it read its files at read; else when it is asked
	read    time.Time
	jobs    []string // host lists
	segment int      // of each job
	hides   bool     // it does not show jobs

	asked, whole int // whole of the questions were about nodes
}

// set changes what it answers.
func (s *testSlurm) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// reads lets it have read its files then.
func (s *testSlurm) reads(at time.Time) {
	s.set(func() { s.late, s.read = true, at })
}

// questions returns the number of all questions, and of questions about nodes.
func (s *testSlurm) questions() (asked, whole int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.whole
}

func (s *testSlurm) Ask(ctx context.Context, q client.Question) (*slurmctld.State, error) {
	s.mu.Lock()
	takes := s.takes
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(takes):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.silent {
		return nil, errors.New("slurmctld does not answer")
	}
	state := &slurmctld.State{Release: s.release, Read: time.Now(), Partitions: map[string]string{}}
	if s.late {
		state.Read = s.read
	}
	if !q.Nodes {
		return state, nil
	}
	s.whole++
	state.Nodes = map[string]slurmctld.Node{}
	for _, name := range nodeNames(1, 72) {
		state.Nodes[name] = slurmctld.Node{Registered: true, State: "IDLE"}
	}
	for i, nodes := range s.jobs {
		names, err := hostlist.Expand(nodes)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			state.Nodes[n] = slurmctld.Node{Registered: true, State: "ALLOCATED"}
		}
		if q.Jobs && !s.hides {
			state.Jobs = append(state.Jobs, slurmctld.Job{ID: fmt.Sprint(i + 1), Nodes: nodes, Segment: s.segment, Start: time.Unix(1, 0)})
		}
	}
	return state, nil
}

func (s *testSlurm) Reconfigure(context.Context) error {
	s.reads(time.Now())
	return nil
}

// asks has the publisher ask a Slurm.
func (s *testSlurm) asks(p *Publisher) {
	p.options.Slurm = map[string]*client.Client{"default": client.New("default", s, p.log)}
}
