package publisher

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// reconcile brings the publication up to date and records the nodes whose published place
// differs from the plan. It continues from the stored plan.
func (l *loop) reconcile(ctx context.Context) error {
	l.found.Pass = nodestatus.Pass{}
	snap, err := l.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	s, reason, err := l.archive.recall(ctx)
	switch {
	case reason != "":
		return l.hold(ctx, s, nil, plandoc.Held{Reason: reason, Message: err.Error()})
	case err != nil:
		return err
	case !s.intact():
		return l.restore(ctx, snap, s)
	case s.asks(published.AnnotationRollback) != "":
		return l.rollBack(ctx, s, time.Now())
	}
	return l.resume(ctx, snap, s)
}

// resume plans on from the stored plan, and publishes the result or holds it.
func (l *loop) resume(ctx context.Context, snap *inputs.Snapshot, s *stored) error {
	now := time.Now()
	g, made, err := l.plan(snap, s.prev, now)
	s.prev, s.gone = g.prev, g.gone
	hold := func(held plandoc.Held) error { return l.stay(ctx, s, &g, made, held, now) }
	if err != nil {
		return hold(plandoc.Held{Reason: "NoPlan", Message: err.Error()})
	}
	made.fit(l.pub, s.set, l.maxBytes)
	l.observe(ctx, made, snap)
	if made.Refused != "" {
		return hold(plandoc.Held{Reason: made.Refused, Message: made.Message, Digest: made.Digest})
	}
	if l.first.SettlesBase(l.pub, s.prev.Topology, made.Plan, now) {
		if why, until := l.first.Waits(l.pub, g.Facts, made.Plan, now); why != "" {
			l.log.Info("first publication waits", "publication", l.pub.Name, "for", why, "upTo", time.Until(until).Round(time.Second))
			l.At(until)
			return nil
		}
	}
	held, next := s.waits(l.pub, made, now)
	l.At(next)
	if held != nil {
		tree := l.treeAlone(s, &g, made, held, now)
		if tree == nil {
			return hold(*held)
		}
		return l.publishPart(ctx, s, &g, tree, made, *held, now)
	}
	specs, until, err := l.spacing.reconcile(s, &g, made, now)
	if err != nil {
		return err
	}
	if specs != nil {
		l.At(until)
		return l.annotateSince(ctx, s, specs, &g, now)
	}
	return l.publishAll(ctx, s, &g, made, now)
}

// publishPart publishes a part of what was made, and holds the rest.
func (l *loop) publishPart(ctx context.Context, s *stored, g *gathered, part, made *Rendered, held plandoc.Held, now time.Time) error {
	s.part = true
	if err := l.publishAll(ctx, s, g, part, now); err != nil {
		return err
	}
	s, _, err := l.archive.recall(ctx) // as it is after the write
	if err != nil {
		return err
	}
	return l.hold(ctx, s, made, held)
}

// publishAll publishes what was made, and annotates the nodes.
func (l *loop) publishAll(ctx context.Context, s *stored, g *gathered, made *Rendered, now time.Time) error {
	s.leaving = l.annotations.Stored(g.leaving, made.Specs)
	written, err := l.publish(ctx, s, made, now)
	if err != nil {
		l.found.files(&s.prev, made.Specs, g.Nodes, unwritten(l.pub, err))
		return err
	}
	l.nodes.wrote(g)
	l.metrics.status.Places.Set(l.pub.Name, nodestatus.PlacesOf(made.places(), g.Facts, g.Nodes))
	return l.annotate(ctx, made.Specs, g.Nodes, s.doc.Ages(written), now)
}

// annotate writes the annotations that are due, and records the nodes whose annotation is
// not as wanted. Before, the pass did not judge annotations.
func (l *loop) annotate(ctx context.Context, specs map[string]string, nodes map[string]*inputs.Node, ages *plandoc.Ages, now time.Time) error {
	out, err := l.annotations.Reconcile(ctx, specs, nodes, ages, now)
	l.At(out.Next())
	if l.pub.Annotates {
		judged := slices.DeleteFunc(l.found.Differences, func(d nodestatus.Difference) bool { return d.Unjudged })
		l.found.Differences = append(judged, out.Differences...)
	}
	return err
}

// stay holds what was made, if anything, and keeps to the published files.
func (l *loop) stay(ctx context.Context, s *stored, g *gathered, made *Rendered, held plandoc.Held, now time.Time) error {
	prev := &s.prev
	if made != nil {
		l.found.files(prev, made.Specs, g.Nodes, heldFor(l.pub, held.Reason))
	}
	if prev.Topology != nil {
		l.metrics.status.Places.Set(l.pub.Name, nodestatus.PlacesOf(prev.Topology.Places(), g.Facts, g.Nodes))
	}
	if err := l.hold(ctx, s, made, held); err != nil || prev.Topology == nil {
		return err
	}
	return l.annotateSince(ctx, s, prev.specs(l.pub), g, now)
}

// annotateSince writes the annotations that are due since the published files were written.
func (l *loop) annotateSince(ctx context.Context, s *stored, specs map[string]string, g *gathered, now time.Time) error {
	written, err := s.set.Written()
	if err != nil {
		written = now
	}
	return l.annotate(ctx, specs, g.Nodes, s.doc.Ages(written), now)
}

// plan gathers the inputs, makes the next files from prev, and records what the plan says
// of the nodes.
func (l *loop) plan(snap *inputs.Snapshot, prev Previous, now time.Time) (g gathered, made *Rendered, err error) {
	g = l.gather(snap, prev, now)
	g.prev = l.units.keep(l.pub, &g, now)
	made, next, err := l.moves.reconcile(l.pub, &g, l.archive.known.Times(now), l.touched, now)
	l.At(next)
	if err != nil {
		return g, nil, err
	}
	l.At(l.units.next(l.pub, made, now))
	made.Problems = append(made.Problems, l.annotations.Overlaps(made.Specs, g.Nodes)...)
	l.found.Plan, l.found.Problems = made.Plan, made.Problems
	l.found.Differences = append(l.found.Differences, l.annotations.Unjudged(g.Nodes)...)
	return g, made, nil
}

// restore writes the files of the stored plan again. If that fails, it records which nodes
// have another place in the files of somebody else.
func (l *loop) restore(ctx context.Context, snap *inputs.Snapshot, s *stored) error {
	l.At(time.Now())
	err := l.repair.reconcile(ctx, s, time.Now())
	if err == nil {
		return nil
	}
	theirs, unreadable := plandoc.FromFiles(s.set.Own())
	if unreadable != nil || s.doc.Current.Plan.ByAnnotation { // the pass is tried again in any case
		return err
	}
	found, unreadable := readPlan(l.pub, theirs)
	g, made, unplanned := l.plan(snap, s.prev, time.Now())
	if unreadable == nil && unplanned == nil {
		found = l.nodes.rename(&g, found)
		l.found.files(&found, made.Specs, g.Nodes, unwritten(l.pub, err))
	}
	return err
}

// rollBack goes back to the revision that somebody asks for.
func (l *loop) rollBack(ctx context.Context, s *stored, now time.Time) error {
	held, err := l.rollback.reconcile(ctx, s, now)
	if held != nil {
		return l.hold(ctx, s, nil, *held)
	}
	l.At(now)
	return err
}

// hold leaves the published files as they are, and says why.
func (l *loop) hold(ctx context.Context, s *stored, made *Rendered, held plandoc.Held) error {
	next, err := l.held.reconcile(ctx, s, made, held, time.Now())
	l.At(next)
	return err
}

// publish writes plan and files if they differ, and drops the reason of held files. It
// returns when the files were written.
func (l *loop) publish(ctx context.Context, s *stored, made *Rendered, now time.Time) (time.Time, error) {
	if !s.part {
		l.held.forget()
	}
	written, changes, err := l.archive.publish(ctx, s, made, now)
	if err != nil {
		return now, err
	}
	if changes == nil {
		l.metrics.passes.WithLabelValues(l.pub.Name, "unchanged").Inc()
		l.log.Debug("unchanged", "publication", l.pub.Name)
		return written, nil
	}
	l.metrics.passes.WithLabelValues(l.pub.Name, "published").Inc()
	r := &s.doc.Current
	l.log.Info("published", "publication", l.pub.Name, "place", l.pub.Place().String(), "revision", r.Number, "digest", made.Digest,
		"blocks", len(made.Plan.Blocks), "switches", len(made.Plan.Switches), "nodes", len(made.Specs), "moved", len(changes.Moves), "by", r.Author, "why", r.Why)
	l.record(l.pub, false, "Published", fmt.Sprintf("revision %d, digest %s: %s; %s", r.Number, made.Digest, made.Summary(), r.Why))
	return written, nil
}
