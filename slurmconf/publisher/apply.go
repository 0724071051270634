package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// outcome is what is published after an action.
type outcome struct {
	*stored
	// startOver says that the pass begins again, because a plan continues from something else now.
	startOver bool
	// specs are the Topology= strings that Nodes are to have. It is nil if their annotations and
	// labels stay as they are.
	specs map[string]string
	// differences are the nodes whose published place is not the planned one.
	differences []nodestatus.Difference
	// waits are the files that wait for a time.
	waits []plandoc.Wait
}

// apply does what was decided.
func (l *loop) apply(ctx context.Context, act action, mem *stored, in *gathered, made *Rendered, now time.Time) (outcome, error) {
	switch act := act.(type) {
	case seed:
		return outcome{startOver: true}, l.seed(ctx, act)
	case repair:
		return l.repair(ctx, mem, in, made, now)
	case rollBack:
		return outcome{startOver: true}, l.rollBack(ctx, mem, act, now)
	case wait:
		if act.specs != nil {
			l.showPlaces(in.prev.Plan.Places(), in)
		}
		return l.alsoHeld(ctx, in, made, outcome{stored: mem, specs: act.specs, waits: []plandoc.Wait{act.Wait}}, act.held, now)
	case hold:
		return l.hold(ctx, mem, in, made, act, now)
	case publish:
		return l.publish(ctx, mem, in, act, now)
	}
	return outcome{}, fmt.Errorf("no such action: %T", act)
}

// publish writes plan and files if they differ. If a part of what was made is held, publish then
// says why.
func (l *loop) publish(ctx context.Context, mem *stored, in *gathered, act publish, now time.Time) (outcome, error) {
	next, err := l.archive.publish(ctx, mem, in, act, l.marks.toTakeBack(in.leaving, act.made.Specs), now)
	if err != nil {
		return outcome{stored: mem, differences: differences(l.pub, &in.prev, act.made.Specs, in.Nodes, unwritten(l.pub, err))}, err
	}
	if act.changes == nil {
		l.metrics.passes.WithLabelValues(l.pub.Name, "unchanged").Inc()
		l.log.Debug("unchanged", "publication", l.pub.Name)
	} else {
		l.metrics.passes.WithLabelValues(l.pub.Name, "published").Inc()
		l.sayGuess()
		l.logPublished(&next.doc.Current, act.made, len(act.changes.Moves))
	}
	l.facts.seats.wrote(&in.Inputs)
	l.showPlaces(act.made.places(), in)
	return l.alsoHeld(ctx, in, act.made, outcome{stored: next, specs: act.made.Specs}, act.held, now)
}

// alsoHeld says what is held beside an outcome, or that nothing is. Nodes that a held decision keeps in
// place are not where their facts say.
func (l *loop) alsoHeld(ctx context.Context, in *gathered, made *Rendered, out outcome, held hold, now time.Time) (_ outcome, err error) {
	out.stored, err = l.holds.say(ctx, out.stored, held, now)
	if held.wanted != nil && out.specs != nil {
		out.differences = heldMoves(l.pub, made, held, in.Nodes)
	}
	return out, err
}

// logPublished logs a new revision, and records an event.
func (l *loop) logPublished(r *plandoc.Revision, made *Rendered, moved int) {
	l.log.Info("published", "publication", l.pub.Name, "place", l.pub.Place().String(), "revision", r.Number, "digest", made.Digest,
		"blocks", len(made.Plan.Blocks()), "switches", len(made.Plan.Switches()), "nodes", len(made.Specs), "moved", moved, "by", r.Author, "why", r.Why)
	l.record(l.pub, false, "Published", fmt.Sprintf("revision %d, digest %s: %s; %s", r.Number, made.Digest, made.Summary(), r.Why))
}

// showPlaces shows the places of nodes in the published files as series.
func (l *loop) showPlaces(published map[string]topology.Place, in *gathered) {
	l.metrics.status.Places.Set(l.pub.Name, nodestatus.PlacesOf(published, in.Facts, in.Nodes))
}
