// Package nodeagent is the daemon of one node. It runs the probe as a child,
// keeps the last good report while the probe hangs or crashes, writes the report to
// the store when a fact has changed, and keeps the files that the job hook reads. It
// calls neither NVML nor DCGM itself.
package nodeagent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/topology"
)

// Store keeps a node's report for the publisher.
type Store interface {
	// Get returns the stored report, nil without one.
	Get(ctx context.Context) ([]byte, error)
	Put(ctx context.Context, report []byte) error
}

// Files are what the agent writes on the node itself.
type Files interface {
	// Write brings the files up to the report. It is called with each new report,
	// again after an error, and rarely with the same report.
	Write(n *topology.Node) error
}

// Probe reads the machine. A [probe.Supervisor] has a child do it.
type Probe interface {
	// Run sends what it finds until ctx ends.
	Run(ctx context.Context, events chan<- probe.Event)
}

// Config says how an agent works.
type Config struct {
	// Node is the name that reports must carry.
	Node  string
	Probe Probe
	// Stale is the time without a confirmation after which the report says that its
	// facts are stale; default 3 minutes. A probe that hung must be replaced once in
	// that time.
	Stale time.Duration
	// IDs are asked for DCGM's ids of the GPUs, in this order until one answers.
	// Without any the ids stay unknown, which is no problem.
	IDs []IDSource
	// IDsEvery is the time between two questions while no GPU changes; default 10
	// minutes, because they change with the GPUs alone.
	IDsEvery time.Duration
	// Adapters reads the machine's network adapters. nil: the probe's report has what is known of
	// them.
	Adapters AdapterReader
	// AdaptersEvery is the pause between two readings of the adapters; default probe.Every.
	AdaptersEvery time.Duration
	// Subscribers get each new report; if they are slow, the newest. Each channel
	// has room for one.
	Subscribers []chan *topology.Node
}

// Agent is the daemon of one node. The facts belong to one loop. All others send it what they learn, and get
// each new report from it.
type Agent struct {
	config  Config
	store   Store
	files   Files
	metrics *Metrics
	log     *again.Log  // only the loop notes problems
	ready   atomic.Bool // there is a report, or a reason for having none

	// The loop gets answers about DCGM's ids, readings of the adapters, and what the store holds.
	ids      chan idAnswer
	adapters chan adapterAnswer
	stored   chan []byte
	// The loop gives the GPUs of which ids are wanted, and new reports. Each channel has room for one.
	questions        chan []string
	toStore, toFiles chan *topology.Node
	// known is closed when the facts have what an earlier agent stored.
	known chan struct{}

	state // Only the loop uses this.
}

// state is what the loop knows.
type state struct {
	facts      facts
	line       []byte         // the report that is made of the facts
	reported   *topology.Node // the same
	lastEnd    string         // why the last probe ended
	recalled   bool           // the facts have what an earlier agent stored
	idFailures int            // questions in a row that left an id unknown
}

// New returns an agent. Nothing starts before Run. files may be nil.
func New(c Config, store Store, files Files, metrics *Metrics, log *slog.Logger) *Agent {
	c.Stale = cmp.Or(c.Stale, 3*time.Minute)
	c.IDsEvery = cmp.Or(c.IDsEvery, 10*time.Minute)
	c.AdaptersEvery = cmp.Or(c.AdaptersEvery, probe.Every)
	return &Agent{
		config: c, store: store, files: files, metrics: metrics, log: again.NewLog(log),
		ids: make(chan idAnswer), adapters: make(chan adapterAnswer), stored: make(chan []byte),
		questions: make(chan []string, 1), toStore: make(chan *topology.Node, 1), toFiles: make(chan *topology.Node, 1),
		known: make(chan struct{}),
	}
}

// Run works until ctx ends. Then no child is left, except one that the kernel
// cannot end.
func (a *Agent) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	events := make(chan probe.Event)
	wg.Go(func() { a.config.Probe.Run(ctx, events) })
	wg.Go(func() { a.answerIDs(ctx) })
	go a.readAdapters(ctx) // which may never end
	wg.Go(func() {
		a.keep(ctx, sink{a.toStore, a.writeStore, "report not stored, trying again"})
	})
	wg.Go(func() {
		a.keep(ctx, sink{a.toFiles, a.writeFiles, "node files not written, the old ones stay, trying again"})
	})
	a.loop(ctx, events)
	wg.Wait()
	return nil
}

// loop takes all that is learned into the facts, and publishes their report, until ctx ends.
func (a *Agent) loop(ctx context.Context, events <-chan probe.Event) {
	stale := time.After(a.config.Stale)
	var ask <-chan time.Time // when to ask for DCGM's ids again
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if a.onEvent(e) {
				stale = time.After(a.config.Stale)
			}
		case got := <-a.ids:
			ask = time.After(a.onIDs(got))
		case <-ask:
			replace(a.questions, a.facts.uuids())
		case got := <-a.adapters:
			a.onAdapters(got)
		case held := <-a.stored:
			a.onStored(held)
		case <-stale:
			a.onStale()
		}
		a.publish()
	}
}

// Ready returns nil once there is a report, or a named reason for having none.
func (a *Agent) Ready() error {
	if !a.ready.Load() {
		return errors.New("the probe has not reported yet")
	}
	return nil
}
