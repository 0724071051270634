// Package nodeagent is the daemon of one node. It runs the probe as a child,
// keeps the last good report while the probe hangs or crashes, writes the report to
// the store when a fact has changed, and keeps the files that the job hook reads. It
// calls neither NVML nor DCGM itself.
package nodeagent

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
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
	// Verify is the mean time after which the stored report and the files are read
	// again, because somebody may have changed them; default 10 minutes.
	Verify time.Duration
}

// Agent is the daemon of one node.
type Agent struct {
	config Config
	store  Store
	files  Files
	*reporter
	storeMu sync.Mutex // held while the store is used; the reporter's comes after it
}

// New returns an agent. Nothing starts before Run. files may be nil.
func New(c Config, store Store, files Files, metrics *Metrics, log *slog.Logger) *Agent {
	c.Verify = cmp.Or(c.Verify, 10*time.Minute)
	c.Stale = cmp.Or(c.Stale, 3*time.Minute)
	c.IDsEvery = cmp.Or(c.IDsEvery, 10*time.Minute)
	c.AdaptersEvery = cmp.Or(c.AdaptersEvery, probe.Every)
	return &Agent{config: c, store: store, files: files, reporter: &reporter{
		node: c.Node, asks: len(c.IDs) > 0, subscribers: c.Subscribers, metrics: metrics, log: log, wake: newWakes()}}
}

// Run works until ctx ends. Then no child is left, except one that the kernel
// cannot end.
func (a *Agent) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	events := make(chan probe.Event)
	wg.Go(func() { a.config.Probe.Run(ctx, events) })
	wg.Go(func() { a.follow(ctx, events) })
	wg.Go(func() { a.keepFiles(ctx) })
	wg.Go(func() { a.keepStore(ctx) })
	wg.Go(func() { a.keepIDs(ctx) })
	wg.Go(func() { a.keepAdapters(ctx) })
	wg.Go(func() { a.keepFresh(ctx) })
	wg.Wait()
	return nil
}

// follow takes the events of the probe until ctx ends.
func (a *Agent) follow(ctx context.Context, events <-chan probe.Event) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			a.hear(e)
		}
	}
}
