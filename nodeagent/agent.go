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
	// Write is called with each new report.
	Write(n *topology.Node) error
}

// Config says how an agent works.
type Config struct {
	// Node is the name that reports must carry.
	Node string
	// Probe is the command line of the child.
	Probe []string
	// Silence is how long the child may say nothing before it is killed.
	Silence time.Duration
	// Verify is the mean time after which the stored report is read again, in
	// case somebody changed it.
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
	report  []byte // the last good one
	problem error  // why there is none yet
	changed chan struct{}
}

// New returns an agent; nothing starts before Run. files may be nil.
func New(c Config, store Store, files Files, metrics *Metrics, log *slog.Logger) *Agent {
	if c.Silence == 0 {
		c.Silence = 30 * time.Second
	}
	if c.Verify == 0 {
		c.Verify = 10 * time.Minute
	}
	return &Agent{config: c, store: store, files: files, metrics: metrics, log: log, changed: make(chan struct{}, 1)}
}

// Run works until ctx ends; then no child of it is left.
func (a *Agent) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { a.supervise(ctx) })
	a.publish(ctx)
	wg.Wait()
	return nil
}

// Ready returns nil once there is a report, or a named reason for having none.
func (a *Agent) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.report == nil && a.problem == nil {
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
	same := bytes.Equal(a.report, line)
	a.report, a.problem = bytes.Clone(line), nil
	a.mu.Unlock()
	a.metrics.observe(n)
	if same {
		return nil
	}
	a.log.Info("facts changed", "gpus", len(n.GPUs), "problems", len(n.Problems))
	if a.files != nil {
		if err := a.files.Write(n); err != nil {
			a.metrics.fileErrors.Inc()
			a.log.Error("node files not written, the old ones stay", "err", err)
		}
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
	return nil
}

// publish brings the store up to the last good report: on a change, after a
// failure, and rarely to see whether somebody else changed it.
func (a *Agent) publish(ctx context.Context) {
	var delay backoff
	timer := time.NewTimer(a.verifyAfter())
	defer timer.Stop()
	trim := time.NewTicker(trimEvery)
	defer trim.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-trim.C:
			TrimMemory()
			continue
		case <-a.changed:
		case <-timer.C:
		}
		next := a.verifyAfter()
		if err := a.sync(ctx); err != nil && ctx.Err() == nil {
			next = delay.next()
			a.metrics.storeErrors.Inc()
			a.log.Error("report not stored, trying again", "after", next, "err", err)
		} else {
			delay = backoff{}
		}
		timer.Reset(next)
	}
}

// trimEvery is how often memory is given back that nothing uses.
const trimEvery = 10 * time.Second

func (a *Agent) verifyAfter() time.Duration {
	half := a.config.Verify / 2
	return half + rand.N(a.config.Verify) //nolint:gosec // spreads load
}

// sync writes the report when the store holds another.
func (a *Agent) sync(ctx context.Context) error {
	a.mu.Lock()
	report := a.report
	a.mu.Unlock()
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
		a.log.Debug("report unchanged")
		return nil
	}
	if err := a.store.Put(ctx, report); err != nil {
		return err
	}
	a.metrics.writes.Inc()
	a.log.Info("report stored")
	return nil
}

// backoff doubles from a second to a minute.
type backoff struct{ tries int }

func (b *backoff) next() time.Duration {
	d := min(time.Second<<min(b.tries, 6), time.Minute)
	b.tries++
	return d
}
