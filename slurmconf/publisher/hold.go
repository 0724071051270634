package publisher

import (
	"context"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// holds says what is held and why, in the log, in events, in the stored plan and in the
// publication's annotations.
type holds struct {
	outlets
	pub     *publication.Cluster
	archive *archive
	timer   *again.Timer   // of the next pass
	said    []plandoc.Held // what was logged last
	at      time.Time      // when the store was last told
}

// hold keeps to the published files, and says why as far as this is not said yet. It returns the
// published places of the nodes, and which nodes wait for others.
func (l *loop) hold(ctx context.Context, mem *stored, in *gathered, made *Rendered, act hold, now time.Time) (out outcome, err error) {
	out.waits = []plandoc.Wait{{Key: lastHour, For: "fewer nodes count for BigChange then", Until: act.next}}
	if made.Plan != nil {
		out.differences = differences(l.pub, &in.prev, made.Specs, in.Nodes, heldFor(l.pub, act.why[0].Reason))
	}
	if in.prev.Plan != nil {
		l.showPlaces(in.prev.Plan.Places(), in)
		out.specs = in.prev.specs(l.pub)
	}
	out.stored, err = l.holds.say(ctx, mem, act, now)
	return out, err
}

// say says what is held and why, or that nothing is. It returns what is stored then.
func (h *holds) say(ctx context.Context, s *stored, act hold, now time.Time) (out *stored, err error) {
	if len(act.why) > 0 {
		h.metrics.passes.WithLabelValues(h.pub.Name, "held").Inc()
	}
	held := slices.Clone(act.why)
	slices.SortStableFunc(held, plandoc.Held.Compare)
	counts := make(map[string]int)
	for i := range held {
		held[i].Message = topology.Cut(held[i].Message, topology.MaxMessage)
		counts[held[i].Reason] = 1
	}
	set(h.metrics.held, h.pub.Name, counts)
	said := slices.EqualFunc(h.said, held, sameText)
	inPlan := s.doc == nil || slices.EqualFunc(s.doc.Held, held, sameText)
	inFiles := s.set == nil || s.set.SaysHeld(held)
	if said && inPlan && inFiles {
		return s, nil
	}
	if later := h.at.Add(saidPause); now.Before(later) && slices.EqualFunc(h.said, held, plandoc.Held.Same) {
		h.timer.At(later)
		return s, nil
	}
	h.at = now
	for i := range held {
		one := &held[i]
		known := func(old plandoc.Held) bool { return sameText(old, *one) || one.Alone && old.Same(*one) }
		if slices.ContainsFunc(h.said, known) {
			continue
		}
		what := "new files are held back, the published files stay"
		switch {
		case one.Alone && held[0].Alone:
			what = "a decision is held, all else is published"
		case one.Alone:
			what = "a decision is held too"
		}
		h.log.Warn(what, "publication", h.pub.Name, "reason", one.Reason, "message", one.Message, "digest", one.Digest)
		h.record(h.pub, true, one.Reason, one.Message)
	}
	h.said = held
	out = &stored{doc: s.doc, set: s.set, prev: s.prev}
	if !inPlan {
		if out.doc, err = h.savePlan(ctx, s.doc, act.wanted, held, now); err != nil {
			return s, err
		}
	}
	if inFiles {
		return out, nil
	}
	set := s.set.Clone()
	set.SayHeld(held)
	out.set, err = h.archive.saveFiles(ctx, set)
	return out, err
}

// sameText reports whether both holds say the same.
func sameText(a, b plandoc.Held) bool {
	return a.Same(b) && a.Digest == b.Digest && a.Message == b.Message
}

// savePlan stores what is held, and since when. It returns the new document.
func (h *holds) savePlan(ctx context.Context, doc *plandoc.Document, wanted func() *Rendered, held []plandoc.Held, now time.Time) (*plandoc.Document, error) {
	for i := range held {
		held[i].Since = now.UTC().Truncate(time.Second)
		for _, old := range doc.Held {
			if held[i].Same(old) {
				held[i].Since = old.Since
			}
		}
	}
	doc = doc.Clone()
	doc.Held, doc.Wanted = held, nil
	if wanted != nil {
		if made := wanted(); len(made.Files) > 0 {
			doc.Wanted = &made.FilePlan
		}
	}
	return h.archive.savePlan(ctx, doc)
}
