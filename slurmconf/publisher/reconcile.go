package publisher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// reconcile brings one publication up to date and records the nodes whose published place
// differs from the plan. It returns the time of the next pass, or zero if only a change
// should trigger one.
func (p *Publisher) reconcile(ctx context.Context, s *state) (time.Time, error) {
	s.found = nodestatus.Pass{}
	wake, err := p.reconcileFiles(ctx, s)
	return earlier(wake, p.status.Found(s.pub.Name, &s.found, time.Now())), err
}

// reconcileFiles reads what is published and continues from it, unless somebody else
// changed the files.
func (p *Publisher) reconcileFiles(ctx context.Context, s *state) (time.Time, error) {
	snap, err := p.store.Snapshot(ctx)
	if err != nil {
		return time.Time{}, err
	}
	was, err := p.store.Load(ctx, s.pub.Place())
	if err != nil {
		return time.Time{}, err
	}
	if !s.last.SameFiles(was) && s.last != nil {
		return time.Now(), p.restore(ctx, s, snap, was)
	}
	prev, err := s.read(was)
	if err != nil {
		return time.Time{}, p.hold(ctx, s, was, "", "PublishedUnreadable", err.Error()+"; restore the file, or remove its key and it is made again")
	}
	now := time.Now()
	switch touchedSince(was, prev) {
	case replaced:
		p.log.Warn("the published topology was replaced by one without nodes, publishing again", "publication", s.pub.Name, "place", s.pub.Place())
		prev.Topology = nil
	case edited:
		if digest := published.Digest(was.Own()); was.Annotations[published.AnnotationApprove] != digest {
			wake := p.foreignDiffer(s, snap, &prev, &prev, heldFor(s.pub, "PublishedEdited"))
			return wake, p.hold(ctx, s, was, digest, "PublishedEdited", fmt.Sprintf("the files were edited: their digest is not %s any more; restore them, or accept them as they are now with the annotation %s=%s",
				was.Annotations[published.AnnotationDigest], published.AnnotationApprove, digest))
		}
	}
	return p.resume(ctx, s, snap, was, prev, now)
}

// resume plans on from the published files, prev, and publishes the result or holds it.
func (p *Publisher) resume(ctx context.Context, s *state, snap *inputs.Snapshot, was *published.Set, prev Previous, now time.Time) (time.Time, error) {
	g, made, wake, err := p.plan(s, snap, &prev, now)
	hold := func(digest, reason, message string) (time.Time, error) {
		if made != nil {
			s.filesDiffer(&prev, made.Specs, g.Nodes, heldFor(s.pub, reason))
		}
		if prev.Topology != nil {
			p.metrics.status.Places.Set(s.pub.Name, nodestatus.PlacesOf(prev.Topology.Places(), g.Facts, g.Nodes))
		}
		if err := p.hold(ctx, s, was, digest, reason, message); err != nil || prev.Topology == nil {
			return wake, err
		}
		written, err := was.Written()
		if err != nil {
			written = now
		}
		annotateAt, err := p.annotateDue(ctx, s, prev.specs(s.pub), g.Nodes, written, now)
		return earlier(wake, annotateAt), err
	}
	if err != nil {
		return hold("", "NoPlan", err.Error())
	}
	p.nameOverlaps(s, made, g.Nodes)
	p.foundPlan(s, made, g.Nodes)
	p.observe(ctx, s, made, snap)
	if made.Refused != "" {
		return hold(made.Digest, made.Refused, made.Message)
	}
	if s.settlesBase(prev.Topology, made.Plan, now) {
		if why, until := s.firstWaits(g.Facts, made.Plan, now); why != "" {
			p.log.Info("first publication waits", "publication", s.pub.Name, "for", why, "upTo", time.Until(until).Round(time.Second))
			return earlier(wake, until), nil
		}
	}
	if reason, what := s.exceedsMaxChange(prev, was, made); reason != "" && was.Annotations[published.AnnotationApprove] != made.Digest {
		return hold(made.Digest, reason, fmt.Sprintf("%s; to publish it anyway, set the annotation %s=%s", what, published.AnnotationApprove, made.Digest))
	}
	made.leaving = s.leaving(&g, made.Specs)
	written, err := p.publish(ctx, s, was, made, now)
	if err != nil {
		s.filesDiffer(&prev, made.Specs, g.Nodes, unwritten(s.pub, err))
		return wake, err
	}
	s.nodes.wrote(&g)
	p.metrics.status.Places.Set(s.pub.Name, nodestatus.PlacesOf(made.places(), g.Facts, g.Nodes))
	annotateAt, err := p.annotateDue(ctx, s, made.Specs, g.Nodes, written, now)
	return earlier(wake, annotateAt), err
}

// read parses published files, ready for resume.
func (s *state) read(was *published.Set) (prev Previous, err error) {
	if prev, err = readPrevious(was); err == nil {
		err = prev.resume(s.pub)
	}
	return prev, err
}

// plan gathers the inputs and makes the next files from prev. It returns when to come
// back for nodes that wait.
func (p *Publisher) plan(s *state, snap *inputs.Snapshot, prev *Previous, now time.Time) (g gathered, made *Rendered, wake time.Time, err error) {
	g, wake = p.gather(s, snap, prev, now)
	wake = earlier(wake, s.keepNamed(prev, &g, now))
	made, proven, err := s.make(g, *prev, now)
	return g, made, earlier(wake, proven), err
}

// restore writes the last files again after somebody deleted or edited them.
func (p *Publisher) restore(ctx context.Context, s *state, snap *inputs.Snapshot, was *published.Set) error {
	const message = "the published files were deleted or edited: written again"
	p.log.Warn(message, "publication", s.pub.Name, "place", s.pub.Place())
	if p.options.Recorder != nil {
		p.options.Recorder.Record(s.pub.Place(), true, "PublishedEdited", message)
	}
	again := was.Clone()
	maps.DeleteFunc(again.Files, func(name, _ string) bool { return slices.Contains(published.OwnFiles, name) })
	maps.Copy(again.Files, s.last.Files)
	for _, key := range []string{published.AnnotationRevision, published.AnnotationDigest, published.AnnotationPublished, published.AnnotationLeftOut} {
		if value, ok := s.last.Annotations[key]; ok {
			again.Annotations[key] = value
		}
	}
	err := p.save(ctx, s, again)
	if err == nil {
		return nil
	}
	mine, unread := s.read(s.last)
	theirs, unreadable := s.read(was)
	if unread == nil && unreadable == nil { // the pass is tried again in any case
		p.foreignDiffer(s, snap, &mine, &theirs, unwritten(s.pub, err))
	}
	return err
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// publish writes the files if their bytes differ, and drops the reason of held files. It
// returns when the files were written.
func (p *Publisher) publish(ctx context.Context, s *state, was *published.Set, made *Rendered, now time.Time) (time.Time, error) {
	p.metrics.setHeld(s.pub.Name, "")
	s.said = ""
	next := was.Clone()
	if update(next, made, now) {
		if err := p.save(ctx, s, next); err != nil {
			return now, err
		}
	}
	s.last = &published.Set{Files: made.Files, Annotations: next.Annotations}
	if was != nil && maps.Equal(was.Files, next.Files) {
		p.metrics.passes.WithLabelValues(s.pub.Name, "unchanged").Inc()
		p.log.Debug("unchanged", "publication", s.pub.Name)
		return next.Written()
	}
	p.metrics.passes.WithLabelValues(s.pub.Name, "published").Inc()
	revision := next.Annotations[published.AnnotationRevision]
	p.log.Info("published", "publication", s.pub.Name, "place", s.pub.Place().String(), "revision", revision, "digest", made.Digest,
		"blocks", len(made.Plan.Blocks), "switches", len(made.Plan.Switches), "nodes", len(made.Specs))
	if p.options.Recorder != nil {
		p.options.Recorder.Record(s.pub.Place(), false, "Published", fmt.Sprintf("revision %s, digest %s: %s", revision, made.Digest, made.Summary()))
	}
	return next.Written()
}

// heldPause is the least time between two messages about files that are held for the same
// reason, because facts may go back and forth.
const heldPause = time.Minute

// hold leaves the published files as they are. It says why in the log, in an event and in
// the publication's annotations.
func (p *Publisher) hold(ctx context.Context, s *state, was *published.Set, digest, reason, message string) error {
	p.metrics.passes.WithLabelValues(s.pub.Name, "held").Inc()
	p.metrics.setHeld(s.pub.Name, reason)
	text := reason + ": " + message
	said := s.said == text
	written := was == nil || was.Annotations[published.AnnotationHeld] == digest && was.Annotations[published.AnnotationHeldReason] == text
	if said && written {
		return nil
	}
	if again := s.heldAt.Add(heldPause); strings.HasPrefix(s.said, reason+": ") && time.Now().Before(again) {
		s.due = again
		return nil
	}
	s.heldAt = time.Now()
	if !said {
		s.said = text
		p.log.Warn("new files are held back, the published files stay", "publication", s.pub.Name, "reason", reason, "message", message, "digest", digest)
		if p.options.Recorder != nil {
			p.options.Recorder.Record(s.pub.Place(), true, reason, message)
		}
	}
	if written {
		return nil
	}
	next := was.Clone()
	next.Annotations[published.AnnotationHeld], next.Annotations[published.AnnotationHeldReason] = digest, text
	return p.save(ctx, s, next)
}

func (p *Publisher) save(ctx context.Context, s *state, out *published.Set) error {
	p.metrics.writes.WithLabelValues("publication").Inc()
	return p.store.Save(ctx, s.pub.Place(), out)
}

// update puts the rendered files into p and drops what was said of held files. It reports
// whether anything changed.
func update(p *published.Set, made *Rendered, now time.Time) bool {
	was := p.Clone()
	for _, key := range []string{published.AnnotationHeld, published.AnnotationHeldReason, published.AnnotationApprove, published.AnnotationLeftOut, published.AnnotationLeaving} {
		delete(p.Annotations, key)
	}
	if made.LeftOut != "" {
		p.Annotations[published.AnnotationLeftOut] = made.LeftOut
	}
	if made.leaving != "" {
		p.Annotations[published.AnnotationLeaving] = made.leaving
	}
	for _, name := range published.OwnFiles {
		delete(p.Files, name)
	}
	maps.Copy(p.Files, made.Files)
	changed := !maps.Equal(was.Files, p.Files)
	if changed {
		revision, _ := strconv.Atoi(p.Annotations[published.AnnotationRevision]) // absent or not ours: begin at 1
		p.Annotations[published.AnnotationRevision] = strconv.Itoa(revision + 1)
	}
	if _, err := p.Written(); changed || err != nil || p.Annotations[published.AnnotationDigest] != made.Digest {
		p.Annotations[published.AnnotationDigest] = made.Digest
		p.Annotations[published.AnnotationPublished] = now.UTC().Format(time.RFC3339)
	}
	return !maps.Equal(was.Files, p.Files) || !maps.Equal(was.Annotations, p.Annotations)
}
