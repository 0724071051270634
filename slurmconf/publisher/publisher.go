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
	"github.com/quoin-hpc/quoin/topology"
)

// Source gives the facts and says when they change.
type Source interface {
	Snapshot(ctx context.Context) (*inputs.Snapshot, error)
	// Changes gets a value after a change. Several changes may give one value.
	Changes() <-chan struct{}
}

// Sink takes what is published.
type Sink interface {
	// Load returns nil when nothing has been published.
	Load(ctx context.Context, p published.Place) (*published.Set, error)
	Save(ctx context.Context, p published.Place, out *published.Set) error
	// Annotate sets the Node's SpecAnnotation, or gives it up if spec is empty. It returns
	// ErrConflict if another writer owns the annotation.
	Annotate(ctx context.Context, node, spec string) error
}

// Store is where facts come from and publications go.
type Store interface {
	Source
	Sink
}

// Recorder records an event of a publication for people, for example as a Kubernetes
// event.
type Recorder interface {
	Record(p published.Place, warning bool, reason, message string)
}

// Publisher keeps publications up to date.
type Publisher struct {
	store   Store
	options Options
	log     *slog.Logger
	metrics *Metrics
	states  []*state
	status  *nodestatus.Keeper
}

// state is what the publisher remembers of one publication between passes. All of it can
// be lost, because the store holds what counts.
type state struct {
	pub *publication.Cluster
	// due is when the next pass is made. dirty is when the first change since the last
	// pass came.
	due, dirty time.Time
	touched    time.Time // when the last change came
	started    time.Time
	firstSince time.Time // when the first publication, or the first with blocks, could have been
	known      int       // nodes with a report or a clique's label, before the first publication
	knownSince time.Time // when their number last changed
	failures   int
	nodes      nodeHistory
	unnamed    map[string]time.Time      // topologies and units of the files -> since when no annotation names them
	readings   map[string]reading        // of the published Nodes whose facts name another place
	unsited    map[string]time.Time      // Slurm names in new blocks of which no parent domain is known -> since when
	tried      map[string]string         // node -> annotation that another writer's stood against
	waiting    map[string]specSince      // Slurm name -> annotation that the Node has not yet
	last       *published.Set            // as last written, should somebody delete it
	heldAt     time.Time                 // when the store was last told why files are held
	said       string                    // the last reason for holding files that was logged
	failed     again.Once                // the last error
	problems   map[topology.Problem]bool // those that were logged
	found      nodestatus.Pass           // what this pass finds of the nodes
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
	p := &Publisher{store: store, options: o, log: log, metrics: metrics}
	for _, c := range clusters {
		p.states = append(p.states, &state{pub: c, tried: map[string]string{}})
	}
	return p
}

// Run publishes until ctx ends. Only the leader runs it.
func (p *Publisher) Run(ctx context.Context) error {
	p.metrics.leader.Set(1)
	defer p.metrics.leader.Set(0)
	defer p.metrics.status.Places.Clear()
	p.log.Info("publishing", "publications", len(p.states))
	now := time.Now()
	for _, s := range p.states { // another publisher may have led since
		*s = state{pub: s.pub, tried: map[string]string{}, started: now}
		s.touch(now)
	}
	p.status = nodestatus.New(nodestatus.Options{Setter: p.options.Conditions, Membership: p.options.Membership, Publications: len(p.states),
		Writes: p.metrics.writes.WithLabelValues("condition")}, p.metrics.status, now, p.log)
	p.status.Touch(now)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.store.Changes():
			now := time.Now()
			for _, s := range p.states {
				s.touch(now)
			}
			p.status.Touch(now)
			p.reread(ctx, now)
		case <-p.status.Changes():
			p.status.Touch(time.Now())
		case <-timer.C:
			p.pass(ctx)
			p.reconcileStatus(ctx)
		}
		timer.Reset(time.Until(p.nextDue()))
	}
}

// touch notes a change. The next pass is made when facts were quiet for Settle, and
// SettleMax after the first change at the latest.
func (s *state) touch(now time.Time) {
	s.touched = now
	if s.dirty.IsZero() {
		s.dirty = now
	}
	due := now.Add(s.pub.Settle.Duration)
	if latest := s.dirty.Add(s.pub.SettleMax.Duration); due.After(latest) {
		due = latest
	}
	if s.failures == 0 || due.After(s.due) {
		s.due = due
	}
}

// idle is the time to the next pass if nothing asks for one.
const idle = 24 * time.Hour

func (p *Publisher) nextDue() time.Time {
	next := time.Now().Add(idle)
	for _, s := range p.states {
		if !s.due.IsZero() && s.due.Before(next) {
			next = s.due
		}
	}
	if due := p.status.Timer.Next(); !due.IsZero() && due.Before(next) {
		next = due
	}
	return next
}

// firstPassPause and lastPassPause are between the tries of a pass that fails.
const (
	firstPassPause = 5 * time.Second
	lastPassPause  = time.Minute
)

// reconcileStatus judges nodes and writes their conditions when that is due.
func (p *Publisher) reconcileStatus(ctx context.Context) {
	now := time.Now()
	if !p.status.Timer.Take(now) {
		return
	}
	if snap, err := p.store.Snapshot(ctx); err == nil {
		p.status.Reconcile(ctx, snap, now)
	} else { // which passes over publications log
		p.status.Touch(now)
	}
}

// pass reconciles every publication that is due.
func (p *Publisher) pass(ctx context.Context) {
	for _, s := range p.states {
		if s.due.IsZero() || s.due.After(time.Now()) {
			continue
		}
		s.due, s.dirty = time.Time{}, time.Time{}
		began := time.Now()
		next, err := p.reconcile(ctx, s)
		p.metrics.duration.WithLabelValues(s.pub.Name).Observe(time.Since(began).Seconds())
		if err != nil && ctx.Err() == nil {
			s.failures++
			next = time.Now().Add(again.Pause(s.failures, firstPassPause, lastPassPause))
			p.fail(s, err)
		} else {
			s.failures = 0
			s.failed.Forget()
		}
		if !next.IsZero() && (s.due.IsZero() || next.Before(s.due)) {
			s.due = next
		}
	}
}

// fail logs a failed pass, once per error. The published files stay as they are.
func (p *Publisher) fail(s *state, err error) {
	p.metrics.passes.WithLabelValues(s.pub.Name, "error").Inc()
	if s.failed.IsNew(err.Error()) {
		p.log.Error("pass failed, the published files stay", "publication", s.pub.Name, "err", err)
	}
}
