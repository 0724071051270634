// Package nodeagent is the daemon of one node. It runs the probe as a child,
// keeps the last good report through its hangs and crashes, writes the report
// to the store when a fact changed, and keeps the files that the job hook
// reads. It calls neither NVML nor DCGM itself.
package nodeagent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/topology"
)

// Store keeps a node's report for the publisher.
type Store interface {
	// Get returns nil when there is none.
	Get(ctx context.Context) ([]byte, error)
	Put(ctx context.Context, report []byte) error
}

// Files are what the agent writes on the node itself.
type Files interface {
	// Write makes the files say what the report says. It is called with each
	// new report, again after an error, and rarely with the same one.
	Write(n *topology.Node) error
}

// Config says how an agent works.
type Config struct {
	// Node is the name that reports must carry.
	Node string
	// Probe is the child that reads the machine.
	Probe probe.Supervisor
	// Stale is after how long without a word of the child the report says that
	// its facts are stale; default 30 s more than the probe's Start and Silence, in
	// which a probe that hung is replaced once.
	Stale time.Duration
	// IDs are asked for DCGM's ids of the GPUs, one after the other until one
	// answers; none leaves them unknown without a word.
	IDs []IDSource
	// IDsEvery is how often they are asked while nothing changes; default 10
	// minutes.
	IDsEvery time.Duration
	// Observe is told of each new report; nil for nobody. It must not wait.
	Observe func(n *topology.Node)
	// Verify is the mean time after which the stored report and the files are
	// read again, in case somebody changed them; default 10 minutes.
	Verify time.Duration
}

// Agent is one node's daemon.
type Agent struct {
	config  Config
	store   Store
	files   Files
	metrics *Metrics
	log     *slog.Logger

	mu       sync.Mutex
	facts    facts
	line     []byte         // the report that is made of the facts
	node     *topology.Node // the same
	problem  error          // why there is none yet
	lastEnd  string         // why the last probe ended
	recalled bool           // the stored report has been looked at

	storeMu sync.Mutex // held while the store is used; a.mu comes after it

	storeChanged, filesChanged, gpusChanged, confirmed chan struct{}
}

// New returns an agent; nothing starts before Run. files may be nil.
func New(c Config, store Store, files Files, metrics *Metrics, log *slog.Logger) *Agent {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	c.Probe.Node, c.Probe.Log = c.Node, log
	c.Probe = c.Probe.WithDefaults()
	orElse(&c.Verify, 10*time.Minute)
	orElse(&c.Stale, c.Probe.Start+c.Probe.Silence+30*time.Second)
	orElse(&c.IDsEvery, 10*time.Minute)
	signal := func() chan struct{} { return make(chan struct{}, 1) }
	return &Agent{config: c, store: store, files: files, metrics: metrics, log: log,
		storeChanged: signal(), filesChanged: signal(), gpusChanged: signal(), confirmed: signal()}
}

// Run works until ctx ends; then no child of it is left, but for one that the
// kernel cannot end.
func (a *Agent) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	events := make(chan probe.Event)
	wg.Go(func() { a.config.Probe.Run(ctx, events) })
	wg.Go(func() { a.follow(ctx, events) })
	wg.Go(func() { a.keepFiles(ctx) })
	wg.Go(func() { a.keepStore(ctx) })
	wg.Go(func() { a.keepIDs(ctx) })
	wg.Go(func() { a.keepFresh(ctx) })
	wg.Wait()
	return nil
}

// Ready returns nil once there is a report, or a named reason for having none.
func (a *Agent) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.line == nil && a.problem == nil {
		return errors.New("the probe has not reported yet")
	}
	return nil
}

// notify wakes who waits for c, if it is not awake yet.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// compose makes the report of the facts, with a.mu held. The first one waits
// for an answer about DCGM's ids, good or bad: else each start of the agent
// would take the ids away for a moment.
func (a *Agent) compose() {
	n := a.facts.report()
	if n == nil || len(a.config.IDs) > 0 && !a.facts.idsAsked && a.facts.stale == "" {
		return
	}
	line, err := topology.EncodeReport(n)
	if err != nil {
		a.log.Error("report not made, the last one stays", "err", err)
		return
	}
	if bytes.Equal(a.line, line) {
		return
	}
	a.line, a.node = line, n
	a.metrics.observe(n)
	if a.config.Observe != nil {
		a.config.Observe(n)
	}
	a.metrics.stored.Set(0)
	a.log.Info("facts changed", "gpus", len(n.GPUs), "problems", len(n.Problems))
	notify(a.storeChanged)
	notify(a.filesChanged)
}

// report returns the last good report, nil before the first.
func (a *Agent) report() ([]byte, *topology.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.line, a.node
}

// keepStore brings the store up to the last good report.
func (a *Agent) keepStore(ctx context.Context) {
	a.keep(ctx, a.storeChanged, a.syncStore, func(err error, again time.Duration) {
		a.metrics.storeErrors.Inc()
		a.log.Error("report not stored, trying again", "after", again, "err", err)
	})
}

// keepFiles brings the node's own files up to the last good report. They do not
// wait for the store, which may be out of reach.
func (a *Agent) keepFiles(ctx context.Context) {
	if a.files == nil {
		return
	}
	a.keep(ctx, a.filesChanged, a.syncFiles, func(err error, again time.Duration) {
		a.metrics.fileErrors.Inc()
		a.log.Error("node files not written, the old ones stay, trying again", "after", again, "err", err)
	})
}

// keep calls sync on a change, after a failure with a growing pause, and rarely
// to see whether somebody else changed what was written.
func (a *Agent) keep(ctx context.Context, changed <-chan struct{}, sync func(context.Context) error, failed func(error, time.Duration)) {
	var delay backoff
	timer := time.NewTimer(a.verifyAfter())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer.C:
		}
		next := a.verifyAfter()
		if err := sync(ctx); err == nil {
			delay = backoff{}
		} else if ctx.Err() == nil {
			next = delay.next()
			failed(err, next)
		}
		timer.Reset(next)
	}
}

func (a *Agent) verifyAfter() time.Duration {
	half := a.config.Verify / 2
	return half + rand.N(a.config.Verify) //nolint:gosec // spreads load
}

// syncStore writes the report when the store holds another.
func (a *Agent) syncStore(ctx context.Context) error {
	a.mu.Lock()
	nothing := a.line == nil && a.facts.stale == ""
	a.mu.Unlock()
	if nothing {
		return nil
	}
	a.storeMu.Lock()
	defer a.storeMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stored, err := a.store.Get(ctx)
	if err != nil {
		return err
	}
	a.recall(stored)
	report, _ := a.report()
	if report == nil {
		return nil
	}
	if bytes.Equal(stored, report) {
		a.holds(report)
		a.log.Debug("report is stored already")
		return nil
	}
	if err := a.store.Put(ctx, report); err != nil {
		return err
	}
	a.metrics.writes.Inc()
	a.holds(report)
	a.log.Info("report stored", "bytes", len(report))
	return nil
}

// holds notes that the store holds a report, unless another has come meanwhile.
func (a *Agent) holds(report []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes.Equal(a.line, report) {
		a.metrics.stored.Set(1)
	}
}

// recallFirst recalls what is stored before there is a first report: without it
// the files would take NVML's indices for ids that were known.
func (a *Agent) recallFirst(ctx context.Context) {
	a.storeMu.Lock()
	defer a.storeMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if stored, err := a.store.Get(ctx); err == nil { // else the report's writing says so
		a.recall(stored)
	}
}

// recall takes what an agent before this one stored, once.
func (a *Agent) recall(stored []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.recalled {
		return
	}
	a.recalled = true
	if stored == nil {
		return
	}
	n, err := topology.ParseReport("stored report", stored)
	if err != nil || n.Name != a.config.Node {
		a.log.Debug("the stored report tells nothing", "err", err)
		return
	}
	a.facts.recall(n)
	a.compose()
}

// syncFiles writes what a probe of this agent has seen: what another stored is
// of no use to the hook.
func (a *Agent) syncFiles(context.Context) error {
	a.mu.Lock()
	n, seen := a.node, a.facts.probe != nil
	a.mu.Unlock()
	if n == nil || !seen {
		return nil
	}
	return a.files.Write(n)
}

// backoff doubles from a second to a minute.
type backoff struct{ tries int }

func (b *backoff) next() time.Duration {
	d := min(time.Second<<min(b.tries, 6), time.Minute)
	b.tries++
	return d
}
