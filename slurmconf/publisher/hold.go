package publisher

import (
	"context"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
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

// Reconcile says why files are held, as far as this is not said yet, and keeps to the
// published files.
func (h *holder) Reconcile(ctx context.Context, p *pass) (r result, err error) {
	switch {
	case p.held != nil:
		if p.in != nil && p.write == nil {
			r = h.stay(p)
		}
		r.next, err = h.hold(ctx, p.stored, p.made, *p.held, p.now)
	case p.write != nil:
		set(h.metrics.held, h.pub.Name, nil)
		h.said = ""
	}
	return r, err
}

// stay returns the published places of the nodes, and which nodes wait for others.
func (h *holder) stay(p *pass) (r result) {
	prev := &p.in.prev
	if p.made != nil {
		r.differences = differences(h.pub, prev, p.made.Specs, p.in.Nodes, heldFor(h.pub, p.held.Reason))
	}
	if prev.Plan != nil {
		h.metrics.status.Places.Set(h.pub.Name, nodestatus.PlacesOf(prev.Plan.Places(), p.in.Facts, p.in.Nodes))
		r.specs = prev.specs(h.pub)
	}
	return r
}

// hold says why files are held. What was made is held, and may be nil. It returns when to
// look again, or zero.
func (h *holder) hold(ctx context.Context, s *stored, made *Rendered, held plandoc.Held, now time.Time) (next time.Time, err error) {
	h.metrics.passes.WithLabelValues(h.pub.Name, "held").Inc()
	held.Message = topology.Cut(held.Message, topology.MaxMessage)
	set(h.metrics.held, h.pub.Name, map[string]int{held.Reason: 1})
	text := held.Reason + ": " + held.Message
	said := h.said == text
	inPlan := s.doc == nil || s.doc.Held != nil && s.doc.Held.Reason == held.Reason && s.doc.Held.Message == held.Message && s.doc.Held.Digest == held.Digest
	inFiles := s.set == nil || s.set.Annotations[plandoc.AnnotationHeld] == held.Digest && s.set.Annotations[plandoc.AnnotationHeldReason] == text
	if said && inPlan && inFiles {
		return next, nil
	}
	if again := h.at.Add(heldPause); strings.HasPrefix(h.said, held.Reason+": ") && now.Before(again) {
		return again, nil
	}
	h.at = now
	if !said {
		h.said = text
		h.log.Warn("new files are held back, the published files stay", "publication", h.pub.Name, "reason", held.Reason, "message", held.Message, "digest", held.Digest)
		h.record(h.pub, true, held.Reason, held.Message)
	}
	if !inPlan {
		if err := h.savePlan(ctx, s.doc, made, held, now); err != nil {
			return next, err
		}
	}
	if inFiles {
		return next, nil
	}
	files := s.set.Clone()
	files.Annotations[plandoc.AnnotationHeld], files.Annotations[plandoc.AnnotationHeldReason] = held.Digest, text
	files.Bound()
	return next, h.archive.saveFiles(ctx, files)
}

// savePlan stores what is held, and since when for this reason.
func (h *holder) savePlan(ctx context.Context, doc *plandoc.Document, made *Rendered, held plandoc.Held, now time.Time) error {
	held.Since = now.UTC().Truncate(time.Second)
	if doc.Held != nil && doc.Held.Reason == held.Reason {
		held.Since = doc.Held.Since
	}
	if made != nil && len(made.all) > 0 {
		plan, err := made.Document()
		if err != nil {
			return err
		}
		held.Plan = &plan
	}
	doc.Held = &held
	return h.archive.savePlan(ctx, doc)
}
