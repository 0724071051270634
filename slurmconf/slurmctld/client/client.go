// Package client asks the running Slurm about its nodes and jobs: slurmrestd by HTTP, or scontrol.
// Publisher and commands ask by it alone. Package slurmctld reads the answers.
//
// There is one Client for each Slurm, with the only schedule for it: askers judge the last answer and say
// what they want next, and Run asks. The Client keeps the last answer and its age, asks one question at a
// time, and leaves a Slurm alone that fails or is slow. Each question is bounded in time and in the size of
// the answer. The package changes nothing in Slurm unless it is told to reconfigure.
package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	// restFor bounds the load of Slurm: after an answer about nodes or jobs it is left alone so many
	// times longer than the answer took. slurmrestd needs seconds for 10,000 nodes.
	restFor = 5
	// After a question that failed Slurm is left alone for firstPause. The pause doubles with each
	// failure, up to lastPause. It is longer for a Slurm that hangs, up to longPause.
	firstPause, lastPause, longPause = 10 * time.Second, 55 * time.Second, 4 * time.Minute
)

// ErrNoJob is returned for a job that does not run.
var ErrNoJob = errors.New("no such job runs")

// Asker asks Slurm one question, until ctx ends.
type Asker interface {
	Ask(ctx context.Context, q Question) (*slurmctld.State, error)
	Reconfigure(ctx context.Context) error
}

// Client asks one Slurm for everybody who wants to know something of it. It is safe for concurrent
// use.
type Client struct {
	name   string
	slurm  Asker
	log    *slog.Logger
	asking chan struct{} // holds a value while Slurm is asked
	wake   chan struct{} // gets a value when somebody wants something else

	mu    sync.Mutex       // guards what follows
	wants map[string]*Want // by asker
	last  Answer
	since time.Time // the first failure since Slurm answered
}

// New returns the Client of a Slurm. The log calls the Slurm by the name of its publication.
func New(name string, slurm Asker, log *slog.Logger) *Client {
	return &Client{name: name, slurm: slurm, log: log, asking: make(chan struct{}, 1), wake: make(chan struct{}, 1), wants: map[string]*Want{}}
}

// Last returns the last answer, without a question.
func (c *Client) Last() Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Want is what an asker wants to know, and the time for the question. The Question may be empty.
type Want struct {
	Question
	// Slurm is asked at At. An answer that was asked for at Than or later will do.
	At, Than time.Time
	// Then gets the last answer when the question is answered or has failed. It returns what the asker wants
	// next, or nil for nothing. The Client holds no lock while Then works.
	Then func(ctx context.Context, a *Answer) *Want
}

// Want replaces what an asker wants next. A nil Want is for an asker who wants nothing.
func (c *Client) Want(asker string, w *Want) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wants[asker] = w
	again.Notify(c.wake)
}

// Run asks Slurm what the askers want, each at its time, until ctx ends. After each Then it leaves a value in
// heard.
func (c *Client) Run(ctx context.Context, heard chan<- struct{}) {
	for ctx.Err() == nil {
		asker, w := c.next()
		if wait := time.Until(w.At); wait > 0 {
			select {
			case <-ctx.Done():
			case <-c.wake:
			case <-time.After(wait):
			}
			continue
		}
		a := c.Newer(ctx, w.Question, w.Than)
		then := w.Then(ctx, &a)
		c.mu.Lock()
		if c.wants[asker] == w { // else the asker wants something else by now
			c.wants[asker] = then
		}
		c.mu.Unlock()
		again.Notify(heard)
	}
}

// next returns who asks next, and what. Of askers whose time has come, the first by name asks first.
func (c *Client) next() (asker string, w *Want) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	w = &Want{At: now.Add(time.Hour)} // nobody wants anything sooner
	for _, name := range slices.Sorted(maps.Keys(c.wants)) {
		if other := c.wants[name]; other != nil && w.At.After(now) && other.At.Before(w.At) {
			asker, w = name, other
		}
	}
	return asker, w
}

// Newer returns an answer that was asked for at than or later. What is older is asked for now. If Slurm
// does not answer, or did not shortly before, Newer returns the last answer with Err. Who comes while
// another asks waits for that answer. Of a slow Slurm the answer may be older: it will do for who comes
// meanwhile and soon after. Details count for jobs that are asked for now.
func (c *Client) Newer(ctx context.Context, q Question, than time.Time) Answer {
	if err := c.lock(ctx); err != nil {
		a := c.Last()
		a.Err = err
		return a
	}
	defer c.unlock()
	m, err := c.due(&q, than)
	if m.nothing() {
		a := c.Last()
		a.Err = err
		return a
	}
	began := time.Now()
	said, err := c.put(ctx, &m)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && ctx.Err() != nil { // who asked has gone
		a := c.last
		a.Err = ctx.Err()
		return a
	}
	if err != nil {
		c.fail(err, began)
		return c.last
	}
	if c.last.Failures > 0 {
		c.log.Info("Slurm answers again", "publication", c.name, "after", time.Since(c.since).Round(time.Second).String())
	}
	c.last.add(&m, said, began)
	c.last.Err, c.last.Failures, c.last.Next = nil, 0, time.Time{}
	if m.whole() {
		c.last.Took = time.Since(began)
	}
	return c.last
}

// Job asks about one running job, with details. The error of a job that does not run is ErrNoJob.
// The Client does not keep the answer. It does not ask a Slurm that did not answer shortly before.
func (c *Client) Job(ctx context.Context, id string) (*slurmctld.Job, error) {
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	if a := c.Last(); time.Now().Before(a.Next) {
		return nil, fmt.Errorf("job %s: %w", topology.Cut(id, topology.MaxText), a.Err)
	}
	state, err := c.put(ctx, &Question{Job: id})
	switch {
	case err != nil:
		return nil, fmt.Errorf("job %s: %w", topology.Cut(id, topology.MaxText), err)
	case len(state.Jobs) != 1:
		return nil, fmt.Errorf("job %s: %w", topology.Cut(id, topology.MaxText), ErrNoJob)
	}
	return &state.Jobs[0], nil
}

// Reconfigure tells slurmctld to read its files again.
func (c *Client) Reconfigure(ctx context.Context) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.slurm.Reconfigure(ctx)
}

// lock waits until nobody else asks.
func (c *Client) lock(ctx context.Context) error {
	select {
	case c.asking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) unlock() { <-c.asking }

// due returns what is to be asked now for an answer that is no older than since. The error says why
// something is missing and Slurm is left alone.
func (c *Client) due(q *Question, since time.Time) (Question, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, now := q.missing(&c.last, since), time.Now()
	if !m.nothing() && now.Before(c.last.Next) {
		return Question{}, c.last.Err
	}
	first := m.Jobs && c.last.Asked.Jobs.IsZero() // nodes are asked for with jobs, or with neither
	if rest := c.last.Asked.Nodes.Add(restFor * c.last.Took); !first && now.Before(rest) {
		m.Nodes, m.Jobs = false, false
	}
	return m, nil
}

// put puts a question to Slurm, bounded in time.
func (c *Client) put(ctx context.Context, q *Question) (*slurmctld.State, error) {
	ctx, cancel := q.limit(ctx, max(len(c.Last().State.Nodes), leastNodes))
	defer cancel()
	return c.slurm.Ask(ctx, *q)
}

// fail keeps the last answer, and logs the first of failures in a row.
func (c *Client) fail(err error, began time.Time) {
	ended := time.Now()
	if c.last.Failures == 0 {
		c.since = ended
		c.log.Warn("Slurm does not answer", "publication", c.name, "err", topology.Cut(err.Error(), topology.MaxMessage))
	}
	c.last.Err = err
	c.last.Failures++
	pause := again.Pause(c.last.Failures, firstPause, lastPause)
	c.last.Next = ended.Add(min(max(pause, restFor*ended.Sub(began)), longPause))
}
