package publisher

import (
	"context"
	"log/slog"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// Store is where facts come from and publications go.
type Store interface {
	Snapshot(ctx context.Context) (*inputs.Snapshot, error)
	// Changes gets a value after a change. Several changes may give one value.
	Changes() <-chan struct{}
	// Load returns nil when nothing has been published.
	Load(ctx context.Context, p published.Place) (*published.Set, error)
	Save(ctx context.Context, p published.Place, out *published.Set) error
	// Annotate sets the Node's SpecAnnotation, or gives it up if spec is empty. It returns
	// ErrConflict if another writer owns the annotation.
	Annotate(ctx context.Context, node, spec string) error
}

// Recorder records an event of a publication for people, for example as a Kubernetes
// event.
type Recorder interface {
	Record(p published.Place, warning bool, reason, message string)
}

// Publisher keeps publications up to date: it runs one loop for each, and one for the
// conditions of Nodes.
type Publisher struct {
	store    Store
	options  Options
	log      *slog.Logger
	metrics  *Metrics
	clusters []*publication.Cluster
}

// Options are the parts that a publisher can do without. Each may be nil.
type Options struct {
	// Recorder gets events.
	Recorder Recorder
	// Conditions writes the conditions of Nodes.
	Conditions nodestatus.Setter
	// Membership keeps the IMEX domain and sees its members.
	Membership nodestatus.Membership
}

// New returns a publisher for the clusters.
func New(store Store, clusters []*publication.Cluster, o Options, metrics *Metrics, log *slog.Logger) *Publisher {
	return &Publisher{store, o, log, metrics, clusters}
}

// idle is the time to the next pass if nothing asks for one.
const idle = 24 * time.Hour

// Run publishes until ctx ends. Only the leader runs it. Another publisher may have led
// since the last time, so nothing is remembered from one Run to the next.
func (p *Publisher) Run(ctx context.Context) error {
	p.metrics.leader.Set(1)
	defer p.metrics.leader.Set(0)
	defer p.metrics.status.Places.Clear()
	p.log.Info("publishing", "publications", len(p.clusters))
	now := time.Now()
	var loops []*loop
	for i := range p.clusters {
		l := newLoop(outlets{p.store, p.options.Recorder, p.log, p.metrics}, p.clusters, i, now)
		l.touch(l.pub, now)
		loops = append(loops, l)
	}
	status := nodestatus.New(nodestatus.Options{Setter: p.options.Conditions, Membership: p.options.Membership, Publications: len(loops),
		Writes: p.metrics.writes.WithLabelValues("condition")}, p.metrics.status, now, p.log)
	status.Touch(now)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.store.Changes():
			now := time.Now()
			for _, l := range loops {
				l.touch(l.pub, now)
			}
			status.Touch(now)
			p.reread(ctx, loops, now)
		case <-status.Changes():
			status.Touch(time.Now())
		case <-timer.C:
			for _, l := range loops {
				if l.Take(time.Now()) {
					l.pass(ctx)
					l.At(status.Found(l.pub.Name, &l.found.Pass, time.Now()))
				}
			}
			p.reconcileStatus(ctx, status)
		}
		var next again.Timer
		next.At(time.Now().Add(idle))
		for _, l := range loops {
			next.At(l.Next())
		}
		next.At(status.Timer.Next())
		timer.Reset(time.Until(next.Next()))
	}
}

// reconcileStatus judges nodes and writes their conditions when that is due.
func (p *Publisher) reconcileStatus(ctx context.Context, status *nodestatus.Keeper) {
	now := time.Now()
	if !status.Timer.Take(now) {
		return
	}
	if snap, err := p.store.Snapshot(ctx); err == nil {
		status.Reconcile(ctx, snap, now)
	} else { // which passes over publications log
		status.Touch(now)
	}
}

// reread looks at nodes that wait to be moved after every change. A fact that changed
// between two passes restarts the settle timer, even if it changed back.
func (p *Publisher) reread(ctx context.Context, loops []*loop, now time.Time) {
	var snap *inputs.Snapshot
	for _, l := range loops {
		if len(l.moves.readings) == 0 {
			continue
		}
		if snap == nil {
			var err error
			if snap, err = p.store.Snapshot(ctx); err != nil {
				snap = &inputs.Snapshot{} // nobody knows what they say now
			}
		}
		l.moves.reread(&l.pub.Rules, snap, now)
	}
}
