// Package nodeagent is the daemon of one node. It runs the probe as a child,
// keeps the last good report through its hangs and crashes, writes the report
// to the store when a fact changed, and keeps the files that the job hook
// reads. It calls neither NVML nor DCGM itself.
package nodeagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

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
	// Probe is the command line of the child.
	Probe []string
	// Start is how long a new child may take for its first line; default 2
	// minutes. NVML starts the GPUs where no persistence daemon holds them, one
	// after the other.
	Start time.Duration
	// Silence is how long the child may say nothing after that before it is
	// killed; default 30 s.
	Silence time.Duration
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

	mu      sync.Mutex
	line    []byte         // the last good report
	node    *topology.Node // the same
	problem error          // why there is none yet

	storeChanged, filesChanged chan struct{}
}

// New returns an agent; nothing starts before Run. files may be nil.
func New(c Config, store Store, files Files, metrics *Metrics, log *slog.Logger) *Agent {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	orElse(&c.Start, 2*time.Minute)
	orElse(&c.Silence, 30*time.Second)
	orElse(&c.Verify, 10*time.Minute)
	return &Agent{config: c, store: store, files: files, metrics: metrics, log: log,
		storeChanged: make(chan struct{}, 1), filesChanged: make(chan struct{}, 1)}
}

// Run works until ctx ends; then no child of it is left, but for one that the
// kernel cannot end.
func (a *Agent) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { a.supervise(ctx) })
	wg.Go(func() { a.keepFiles(ctx) })
	wg.Go(func() { a.keepStore(ctx) })
	a.trim(ctx)
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

// take checks a line of the probe and keeps it as the last good report.
func (a *Agent) take(line []byte) error {
	n, err := topology.ParseReport("probe", line)
	if err != nil {
		return err
	}
	if n.Name != a.config.Node {
		return fmt.Errorf("probe: report of node %q, want %q", n.Name, a.config.Node)
	}
	a.mu.Lock()
	same := bytes.Equal(a.line, line)
	if !same {
		a.line, a.node = bytes.Clone(line), n
	}
	a.problem = nil
	a.mu.Unlock()
	if same {
		a.log.Debug("facts unchanged")
		return nil
	}
	a.metrics.observe(n)
	a.metrics.stored.Set(0)
	a.log.Info("facts changed", "gpus", len(n.GPUs), "problems", len(n.Problems))
	for _, c := range []chan struct{}{a.storeChanged, a.filesChanged} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	return nil
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
	report, _ := a.report()
	if report == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stored, err := a.store.Get(ctx)
	if err != nil {
		return err
	}
	if bytes.Equal(stored, report) {
		a.metrics.stored.Set(1)
		a.log.Debug("report is stored already")
		return nil
	}
	if err := a.store.Put(ctx, report); err != nil {
		return err
	}
	a.metrics.stored.Set(1)
	a.metrics.writes.Inc()
	a.log.Info("report stored", "bytes", len(report))
	return nil
}

func (a *Agent) syncFiles(context.Context) error {
	if _, n := a.report(); n != nil {
		return a.files.Write(n)
	}
	return nil
}

// trim gives memory back that nothing uses: soon after the start, which needs
// most of it, and then now and again.
func (a *Agent) trim(ctx context.Context) {
	const soon, seldom = time.Second, 10 * time.Second
	timer := time.NewTimer(soon)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		TrimMemory()
		timer.Reset(seldom)
	}
}

// backoff doubles from a second to a minute.
type backoff struct{ tries int }

func (b *backoff) next() time.Duration {
	d := min(time.Second<<min(b.tries, 6), time.Minute)
	b.tries++
	return d
}
