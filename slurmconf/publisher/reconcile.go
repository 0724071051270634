package publisher

import (
	"context"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
)

// reconcile brings the publication up to date and records the nodes whose published place
// differs from the plan. It continues from the stored plan.
func (l *loop) reconcile(ctx context.Context) error {
	l.found = nodestatus.Pass{}
	snap, err := l.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	p := &pass{now: time.Now(), touched: l.Touched, snap: snap}
	done, err := l.run(ctx, p, l.decisions)
	if err == nil && !done {
		_, err = l.run(ctx, p, l.actions)
	}
	l.record(ctx, p)
	return err
}

// run runs the steps until one of them ends the pass, or decides that files are held.
func (l *loop) run(ctx context.Context, p *pass, steps []step) (done bool, err error) {
	for _, s := range steps {
		r, err := s.Reconcile(ctx, p)
		l.At(r.next)
		p.add(&r)
		if err != nil || r.done {
			return true, err
		}
		if r.held != nil {
			break
		}
	}
	return false, nil
}

// record keeps what the pass found of the nodes, if it made a plan.
func (l *loop) record(ctx context.Context, p *pass) {
	l.found.Differences = p.differences
	if p.stored != nil && l.jobs.Asks(l.pub.Name) && p.stored.doc.Current.Number != l.placed {
		l.placed = p.stored.doc.Current.Number
		l.jobs.Set(l.pub.Name, p.stored.doc.Current.Plan.Topologies)
	}
	if p.made == nil {
		return
	}
	l.found.Plan, l.found.Problems = p.made.Plan, p.made.Problems
	if !p.judged {
		l.found.Differences = slices.Concat(l.annotations.unjudged(p.in.Nodes), l.found.Differences)
	}
	l.observe(ctx, p.made, p.snap)
}
