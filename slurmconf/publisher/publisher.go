// Package publisher is the cluster side: it merges reports with Node labels,
// plans, renders, lints and publishes one set of files per Slurm cluster, then
// annotates the Nodes.
//
// Its memory is the stored plan of each publication. Files, annotations and answers are
// made from the plan, and files are read to see whether somebody changed them, or where nodes
// were if no plan is stored. The
// plan is written first, then the files, then the annotations.
//
// It writes only when bytes differ, and only files that were parsed back and
// linted for the release that loads them. On any doubt the last good files
// stay: it never publishes an empty plan, holds back a step that moves more
// nodes than the publication allows until somebody approves its digest, and
// says why in the publication's annotations, an event and a metric.
package publisher

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/topology"
)

// Store is where facts come from and publications go.
type Store interface {
	// Snapshot shows all that this store has written.
	Snapshot(ctx context.Context) (*inputs.Snapshot, error)
	// Changes gets a value after a change. Several changes may give one value.
	Changes() <-chan struct{}
	// Load returns nil when nothing has been published.
	Load(ctx context.Context, p plandoc.Location) (*plandoc.Published, error)
	// Save stores the files and annotations onto the version that they have. It returns the new version.
	Save(ctx context.Context, p plandoc.Location, out *plandoc.Published) (version string, err error)
	// LoadPlan returns the stored plan of the publication, or nil if there is none. The
	// error of a plan that cannot be read wraps plandoc.ErrUnreadable.
	LoadPlan(ctx context.Context, publication string) (*plandoc.Document, error)
	// Stored returns what is stored of each publication that has a plan.
	Stored(ctx context.Context) (map[string]plandoc.Stored, error)
	// PlanChanged reports whether the stored plan is another one than that of the version, as
	// far as the store has noticed. It reads no plan.
	PlanChanged(publication, version string) bool
	// SavePlan stores the plan onto the version that it has. It returns the new version.
	SavePlan(ctx context.Context, d *plandoc.Document) (version string, err error)
	// Mark writes annotations and labels of a Node, onto the version that the snapshot shows. It
	// returns ErrNodeChanged if the Node has another version now.
	Mark(ctx context.Context, n *inputs.Node, change inputs.Marks) error
}

// Publisher keeps publications up to date: it runs one loop for each, and one for the
// conditions of Nodes.
type Publisher struct {
	outlets
	clusters []*publication.Cluster
	heard    chan struct{} // gets a value when Slurm has answered or failed
	busy     atomic.Pointer[time.Time]
}

// Busy returns since when Run has been at its present work, or nil if it waits for work.
func (p *Publisher) Busy() *time.Time { return p.busy.Load() }

// Occupancy returns what is known of nodes and running jobs in Slurm.
func (p *Publisher) Occupancy() *occupancy.Keeper { return p.jobs }

// Options are the parts that a publisher can do without. Each may be nil.
type Options struct {
	// MaxBytes is what the store takes as the files of one publication. 0: any number.
	MaxBytes int
	// Recorder gets events.
	Recorder loaded.Recorder
	// Conditions writes the conditions of Nodes.
	Conditions nodestatus.Setter
	// Seed publishes files without nodes while nothing else is published.
	Seed bool
	// Membership keeps the IMEX domain and sees its members.
	Membership nodestatus.Membership
	// Slurm has the Client of each publication whose Slurm can be asked, by name.
	Slurm map[string]*client.Client
}

// New returns a publisher for the clusters.
func New(store Store, clusters []*publication.Cluster, o Options, metrics *Metrics, log *slog.Logger) *Publisher {
	jobs := occupancy.New(o.Slurm)
	metrics.occupancy.Watch(jobs, store, log)
	return &Publisher{outlets: outlets{store, o, log, metrics, jobs}, clusters: clusters, heard: make(chan struct{}, 1)}
}

// idle is the time to the next pass if nothing asks for one.
const idle = 24 * time.Hour

// Ask asks each Slurm what is wanted until ctx ends. Each publisher runs it beside Run or without Run, because
// people may look at the map of one that does not lead.
func (p *Publisher) Ask(ctx context.Context) error {
	var asking sync.WaitGroup
	for _, c := range p.options.Slurm {
		asking.Go(func() { c.Run(ctx, p.heard) })
	}
	<-ctx.Done() // there may be no Slurm to ask
	asking.Wait()
	return nil
}

// Run publishes until ctx ends. Only the leader runs it. Another publisher may have led
// since the last time, so nothing is remembered from one Run to the next.
func (p *Publisher) Run(ctx context.Context) error {
	p.metrics.leader.Set(1)
	defer p.metrics.leader.Set(0)
	defer p.metrics.status.Clear()
	defer p.metrics.occupancy.Clear()
	p.jobs.Follow()
	defer p.jobs.Forget()
	p.log.Info("publishing", "publications", len(p.clusters))
	now := time.Now()
	var loops []*loop
	for i := range p.clusters {
		l := newLoop(p.outlets, p.clusters, i, now)
		l.Touch(now, l.pub.SettleTime.Duration, l.pub.SettleMost())
		l.seedAtOnce(ctx)
		loops = append(loops, l)
		defer l.watch.End()
	}
	status := nodestatus.New(nodestatus.Options{Setter: p.options.Conditions, Membership: p.options.Membership, Publications: len(loops),
		Fabrics: publication.AnyFabrics(p.clusters)}, p.metrics.status, now, p.log)
	status.Touch(now)
	var left leftovers
	left.At(now)
	defer p.forget(&left)
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer p.busy.Store(nil)
	for {
		p.busy.Store(nil)
		select {
		case <-ctx.Done():
			return nil
		case <-p.store.Changes():
			now := time.Now()
			p.busy.Store(&now)
			for _, l := range loops {
				l.Touch(now, l.pub.SettleTime.Duration, l.pub.SettleMost())
			}
			p.reread(ctx, loops, now)
		case <-p.heard:
			for _, l := range loops {
				if (l.watch.News() || l.newJobs()) && l.Dirty.IsZero() && l.Failures == 0 { // else a pass comes when it may
					l.At(time.Now())
				}
			}
		case <-status.Changes():
			status.Touch(time.Now())
		case <-timer.C:
			now := time.Now()
			p.busy.Store(&now)
			for _, l := range loops {
				if l.Take(time.Now()) {
					found := l.turn(ctx)
					l.At(status.Found(l.pub.Name, &found, time.Now()))
				}
			}
			p.reconcileStatus(ctx, status)
			p.sayLeftovers(ctx, &left, now)
		}
		var next again.Timer
		next.At(time.Now().Add(idle))
		for _, l := range loops {
			next.At(l.Next())
		}
		next.At(status.Timer.Next())
		next.At(left.Next())
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
		if len(l.settle.readings) == 0 {
			continue
		}
		if snap == nil {
			var err error
			if snap, err = p.store.Snapshot(ctx); err != nil {
				snap = &inputs.Snapshot{} // nobody knows what they say now
			}
		}
		l.settle.reread(&l.pub.Rules, &l.facts.cables, snap, now)
	}
}

// loop keeps one publication up to date. The structs below outlets remember something from pass
// to pass. All of it can be lost, because the store holds what counts.
type loop struct {
	outlets
	again.Schedule
	pub     *publication.Cluster
	archive *archive
	facts   *gatherer
	settle  *settle
	first   *firstWait
	holds   *holds
	marks   *marker
	watch   *loaded.Watch
	said    saidWaits
	// noSeed is why there is no seed, as it was logged last.
	noSeed again.Once
	// guessed is whether people were told that no release is seen.
	guessed again.Once
	// problems is what was logged.
	problems nodestatus.ProblemLog
	// waitsSince is when the answer about jobs was asked for that does not let nodes move yet, or nil.
	waitsSince *time.Time
}

// outlets are what passes read from and write to, and what the publisher can do without.
type outlets struct {
	store   Store
	options Options
	log     *slog.Logger
	metrics *Metrics
	jobs    *occupancy.Keeper
}

// record records an event.
func (o *outlets) record(p *publication.Cluster, warning bool, reason, message string) {
	if o.options.Recorder != nil {
		o.options.Recorder.Record(p.Place(), warning, reason, message)
	}
}

// newLoop returns the loop of one of all publications.
func newLoop(o outlets, all []*publication.Cluster, at int, now time.Time) *loop {
	pub := all[at]
	others := slices.Concat(all[:at], all[at+1:])
	a := &archive{outlets: o, pub: pub, others: others}
	l := &loop{outlets: o, pub: pub, archive: a, first: &firstWait{pub: pub, started: now},
		watch: loaded.NewWatch(pub, loaded.Options{Slurm: o.options.Slurm[pub.Name], Recorder: o.options.Recorder, Metrics: o.metrics.loaded, Log: o.log})}
	timer := &l.Timer
	l.marks = &marker{outlets: o, pub: pub, timer: timer, others: others, said: map[string]string{}}
	l.facts = &gatherer{pub: pub, seats: &seats{pub: pub, others: others}, marks: l.marks, jobs: o.jobs, fabrics: &fabricHistory{}, timer: timer}
	l.settle = &settle{pub: pub}
	l.holds = &holds{outlets: o, pub: pub, archive: a, timer: timer}
	return l
}

// turn makes one pass, and returns what the pass found of the nodes. An error is logged once, and
// the published files stay as they are.
func (l *loop) turn(ctx context.Context) nodestatus.Pass {
	l.Dirty = time.Time{}
	began := time.Now()
	_, found, err := l.pass(ctx, began)
	l.metrics.duration.WithLabelValues(l.pub.Name).Observe(time.Since(began).Seconds())
	if err == nil || ctx.Err() != nil {
		l.Failures = 0
		l.Failed.Forget()
		return found
	}
	l.Fail(time.Now())
	l.archive.forget()
	l.metrics.passes.WithLabelValues(l.pub.Name, "error").Inc()
	if l.Failed.IsNew(err.Error()) {
		l.log.Error("pass failed, the published files stay", "publication", l.pub.Name, "err", topology.Cut(err.Error(), topology.MaxMessage))
	}
	return found
}
