package computedomain

import (
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// refusal remembers that the API server refused the domain.
type refusal struct {
	mu      sync.Mutex
	problem topology.Problem
	until   time.Time
	pause   time.Duration
}

// The pauses before a refused domain is sent again.
const (
	firstRefusalPause = time.Minute
	longRefusalPause  = 15 * time.Minute
)

func (r *refusal) begin(problem topology.Problem, again func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause = min(max(2*r.pause, firstRefusalPause), longRefusalPause)
	r.problem, r.until = problem, time.Now().Add(r.pause)
	time.AfterFunc(r.pause, again)
}

func (r *refusal) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem, r.until, r.pause = topology.Problem{}, time.Time{}, 0
}

func (r *refusal) stands() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until)
}

func (r *refusal) why() topology.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}
