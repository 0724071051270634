package publisher

import (
	"context"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// heldPause is the least time between two messages about files that are held for the same
// reason, because facts may go back and forth.
const heldPause = time.Minute

// holder says why files are held, in the log, in an event, in the stored plan and in the
// publication's annotations.
type holder struct {
	outlets
	pub     *publication.Cluster
	archive *archive
	said    string    // the last reason that was logged
	at      time.Time // when the store was last told
}

// hold keeps to the published files, and says why as far as this is not said yet. It returns the
// published places of the nodes, and which nodes wait for others.
func (l *loop) hold(ctx context.Context, mem *stored, in *gathered, made *Rendered, act hold, now time.Time) (outcome, error) {
	out := outcome{stored: mem, written: mem.written(now)}
	if made.Plan != nil {
		out.differences = differences(l.pub, &in.prev, made.Specs, in.Nodes, heldFor(l.pub, act.why.Reason))
	}
	if in.prev.Plan != nil {
		l.showPlaces(in.prev.Plan.Places(), in)
		out.specs = in.prev.specs(l.pub)
	}
	said, next, err := l.holder.say(ctx, mem, made, act.why, now)
	out.stored, out.next = said, again.First(act.next, next)
	return out, err
}

// nothing notes that nothing is held.
func (h *holder) nothing() {
	set(h.metrics.held, h.pub.Name, nil)
	h.said = ""
}

// say says why files are held. It returns what is stored then, and when to look again, or zero.
func (h *holder) say(ctx context.Context, s *stored, made *Rendered, why *plandoc.Held, now time.Time) (out *stored, next time.Time, err error) {
	held := *why
	h.metrics.passes.WithLabelValues(h.pub.Name, "held").Inc()
	held.Message = topology.Cut(held.Message, topology.MaxMessage)
	set(h.metrics.held, h.pub.Name, map[string]int{held.Reason: 1})
	text := held.Reason + ": " + held.Message
	said := h.said == text
	inPlan := s.doc == nil || s.doc.Held != nil && s.doc.Held.Reason == held.Reason && s.doc.Held.Message == held.Message && s.doc.Held.Digest == held.Digest
	inFiles := s.set == nil || s.set.Annotations[plandoc.AnnotationHeld] == held.Digest && s.set.Annotations[plandoc.AnnotationHeldReason] == text
	if said && inPlan && inFiles {
		return s, next, nil
	}
	if later := h.at.Add(heldPause); strings.HasPrefix(h.said, held.Reason+": ") && now.Before(later) {
		return s, later, nil
	}
	h.at = now
	if !said {
		h.said = text
		h.log.Warn("new files are held back, the published files stay", "publication", h.pub.Name, "reason", held.Reason, "message", held.Message, "digest", held.Digest)
		h.record(h.pub, true, held.Reason, held.Message)
	}
	out = &stored{s.doc, s.set, s.prev}
	if !inPlan {
		if out.doc, err = h.savePlan(ctx, s.doc, made, held, now); err != nil {
			return s, next, err
		}
	}
	if inFiles {
		return out, next, nil
	}
	out.set = s.set.Clone()
	out.set.Annotations[plandoc.AnnotationHeld], out.set.Annotations[plandoc.AnnotationHeldReason] = held.Digest, text
	out.set.Bound()
	return out, next, h.archive.saveFiles(ctx, out.set)
}

// savePlan stores what is held, and since when for this reason. It returns the new document.
func (h *holder) savePlan(ctx context.Context, doc *plandoc.Document, made *Rendered, held plandoc.Held, now time.Time) (*plandoc.Document, error) {
	held.Since = now.UTC().Truncate(time.Second)
	if doc.Held != nil && doc.Held.Reason == held.Reason {
		held.Since = doc.Held.Since
	}
	if held.Digest != "" {
		plan, err := made.Document()
		if err != nil {
			return nil, err
		}
		held.Plan = &plan
	}
	doc = doc.Clone()
	doc.Held = &held
	return doc, h.archive.savePlan(ctx, doc)
}
