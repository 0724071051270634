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

// reconcile brings the publication up to date and records the nodes whose published place
// differs from the plan. It reads what is published and continues from it, unless somebody
// else changed the files.
func (l *loop) reconcile(ctx context.Context) error {
	l.found.Pass = nodestatus.Pass{}
	snap, err := l.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	old, err := l.store.Load(ctx, l.pub.Place())
	if err != nil {
		return err
	}
	if l.last != nil && !l.last.SameFiles(old) {
		l.At(time.Now())
		return l.restore(ctx, snap, old)
	}
	prev, err := readFor(l.pub, old)
	if err != nil {
		return l.hold(ctx, old, "", "PublishedUnreadable", err.Error()+"; restore the file, or remove its key and it is made again")
	}
	switch touchedSince(old, prev) {
	case replaced:
		l.log.Warn("the published topology was replaced by one without nodes, publishing again", "publication", l.pub.Name, "place", l.pub.Place().String())
		prev.Topology = nil
	case edited:
		if digest := published.Digest(old.Own()); old.Annotations[published.AnnotationApprove] != digest {
			l.compareForeign(snap, &prev, &prev, heldFor(l.pub, "PublishedEdited"))
			return l.hold(ctx, old, digest, "PublishedEdited", fmt.Sprintf("the files were edited: their digest is not %s any more; restore them, or accept them as they are now with the annotation %s=%s",
				old.Annotations[published.AnnotationDigest], published.AnnotationApprove, digest))
		}
	}
	return l.resume(ctx, snap, old, prev)
}

// resume plans on from the published files, prev, and publishes the result or holds it.
func (l *loop) resume(ctx context.Context, snap *inputs.Snapshot, old *published.Set, prev Previous) error {
	now := time.Now()
	g, made, err := l.plan(snap, &prev, now)
	hold := func(digest, reason, message string) error {
		return l.stay(ctx, old, &prev, &g, made, digest, reason, message, now)
	}
	if err != nil {
		return hold("", "NoPlan", err.Error())
	}
	made.fit(l.pub, old, l.maxBytes)
	l.observe(ctx, made, snap)
	if made.Refused != "" {
		return hold(made.Digest, made.Refused, made.Message)
	}
	if l.first.settlesBase(l.pub, prev.Topology, made.Plan, now) {
		if why, until := l.first.waits(l.pub, g.Facts, made.Plan, now); why != "" {
			l.log.Info("first publication waits", "publication", l.pub.Name, "for", why, "upTo", time.Until(until).Round(time.Second))
			l.At(until)
			return nil
		}
	}
	if reason, what := exceedsMaxChange(l.pub, prev, old, made); reason != "" && old.Annotations[published.AnnotationApprove] != made.Digest {
		return hold(made.Digest, reason, fmt.Sprintf("%s; to publish it anyway, set the annotation %s=%s", what, published.AnnotationApprove, made.Digest))
	}
	made.leaving = l.annotations.leaving(&g, made.Specs)
	written, err := l.publish(ctx, old, made, now)
	if err != nil {
		l.found.files(&prev, made.Specs, g.Nodes, unwritten(l.pub, err))
		return err
	}
	l.nodes.wrote(&g)
	l.metrics.status.Places.Set(l.pub.Name, nodestatus.PlacesOf(made.places(), g.Facts, g.Nodes))
	return l.annotations.reconcile(ctx, l, made.Specs, g.Nodes, written, now)
}

// stay holds what was made, if anything, and keeps to the published files.
func (l *loop) stay(ctx context.Context, old *published.Set, prev *Previous, g *gathered, made *Rendered, digest, reason, message string, now time.Time) error {
	if made != nil {
		l.found.files(prev, made.Specs, g.Nodes, heldFor(l.pub, reason))
	}
	if prev.Topology != nil {
		l.metrics.status.Places.Set(l.pub.Name, nodestatus.PlacesOf(prev.Topology.Places(), g.Facts, g.Nodes))
	}
	if err := l.hold(ctx, old, digest, reason, message); err != nil || prev.Topology == nil {
		return err
	}
	written, err := old.Written()
	if err != nil {
		written = now
	}
	return l.annotations.reconcile(ctx, l, prev.specs(l.pub), g.Nodes, written, now)
}

// plan gathers the inputs, makes the next files from prev, and records what the plan says
// of the nodes.
func (l *loop) plan(snap *inputs.Snapshot, prev *Previous, now time.Time) (g gathered, made *Rendered, err error) {
	g = l.gather(snap, prev, now)
	l.units.keep(l, prev, &g, now)
	if made, err = l.moves.make(l, &g, *prev, now); err != nil {
		return g, nil, err
	}
	l.units.wake(l, made, now)
	made.Problems = append(made.Problems, l.annotations.overlaps(made.Specs, g.Nodes)...)
	l.found.Plan, l.found.Problems = made.Plan, made.Problems
	l.annotations.unjudged(&l.found, g.Nodes)
	return g, made, nil
}

// restore writes the last files again after somebody deleted or edited them.
func (l *loop) restore(ctx context.Context, snap *inputs.Snapshot, old *published.Set) error {
	const message = "the published files were deleted or edited: written again"
	l.log.Warn(message, "publication", l.pub.Name, "place", l.pub.Place().String())
	l.record(l.pub, true, "PublishedEdited", message)
	next := old.Clone()
	maps.DeleteFunc(next.Files, func(name, _ string) bool { return slices.Contains(published.OwnFiles, name) })
	maps.Copy(next.Files, l.last.Files)
	for _, key := range []string{published.AnnotationRevision, published.AnnotationDigest, published.AnnotationPublished, published.AnnotationLeftOut} {
		if value, ok := l.last.Annotations[key]; ok {
			next.Annotations[key] = value
		}
	}
	err := l.save(ctx, next)
	if err == nil {
		return nil
	}
	mine, unread := readFor(l.pub, l.last)
	theirs, unreadable := readFor(l.pub, old)
	if unread == nil && unreadable == nil { // the pass is tried again in any case
		l.compareForeign(snap, &mine, &theirs, unwritten(l.pub, err))
	}
	return err
}

// publish writes the files if their bytes differ, and drops the reason of held files. It
// returns when the files were written.
func (l *loop) publish(ctx context.Context, old *published.Set, made *Rendered, now time.Time) (time.Time, error) {
	set(l.metrics.held, l.pub.Name, nil)
	l.held.said = ""
	next := old.Clone()
	if update(next, made, now) {
		if err := l.save(ctx, next); err != nil {
			return now, err
		}
	}
	l.last = &published.Set{Files: made.Files, Annotations: next.Annotations}
	if old != nil && maps.Equal(old.Files, next.Files) {
		l.metrics.passes.WithLabelValues(l.pub.Name, "unchanged").Inc()
		l.log.Debug("unchanged", "publication", l.pub.Name)
		return next.Written()
	}
	l.metrics.passes.WithLabelValues(l.pub.Name, "published").Inc()
	revision := next.Annotations[published.AnnotationRevision]
	l.log.Info("published", "publication", l.pub.Name, "place", l.pub.Place().String(), "revision", revision, "digest", made.Digest,
		"blocks", len(made.Plan.Blocks), "switches", len(made.Plan.Switches), "nodes", len(made.Specs))
	l.record(l.pub, false, "Published", fmt.Sprintf("revision %s, digest %s: %s", revision, made.Digest, made.Summary()))
	return next.Written()
}

// heldPause is the least time between two messages about files that are held for the same
// reason, because facts may go back and forth.
const heldPause = time.Minute

// held is what was said of files that are held.
type held struct {
	said string    // the last reason that was logged
	at   time.Time // when the store was last told
}

// hold leaves the published files as they are. It says why in the log, in an event and in
// the publication's annotations.
func (l *loop) hold(ctx context.Context, old *published.Set, digest, reason, message string) error {
	l.metrics.passes.WithLabelValues(l.pub.Name, "held").Inc()
	set(l.metrics.held, l.pub.Name, map[string]int{reason: 1})
	text := reason + ": " + message
	said := l.held.said == text
	written := old == nil || old.Annotations[published.AnnotationHeld] == digest && old.Annotations[published.AnnotationHeldReason] == text
	if said && written {
		return nil
	}
	if again := l.held.at.Add(heldPause); strings.HasPrefix(l.held.said, reason+": ") && time.Now().Before(again) {
		l.At(again)
		return nil
	}
	l.held.at = time.Now()
	if !said {
		l.held.said = text
		l.log.Warn("new files are held back, the published files stay", "publication", l.pub.Name, "reason", reason, "message", message, "digest", digest)
		l.record(l.pub, true, reason, message)
	}
	if written {
		return nil
	}
	next := old.Clone()
	next.Annotations[published.AnnotationHeld], next.Annotations[published.AnnotationHeldReason] = digest, text
	return l.save(ctx, next)
}

func (l *loop) save(ctx context.Context, out *published.Set) error {
	l.metrics.writes.WithLabelValues("publication").Inc()
	return l.store.Save(ctx, l.pub.Place(), out)
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
