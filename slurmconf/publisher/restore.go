package publisher

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// repair writes the files of the stored plan again. Somebody deleted or edited them, or a
// publisher ended between the plan and the files.
type repair struct {
	outlets
	pub     *publication.Cluster
	archive *archive
	nodes   *nodeHistory
	plan    func(context.Context, *pass) error
}

// Reconcile writes the files if they are not the ones of the stored plan. If that fails, it
// returns which nodes have another place in the files of somebody else.
func (r *repair) Reconcile(ctx context.Context, p *pass) (result, error) {
	s := p.stored
	if s.intact() {
		return result{}, nil
	}
	const message = "the published files differ from the stored plan: written again"
	r.log.Warn(message, "publication", r.pub.Name, "place", r.pub.Place().String(), "revision", s.doc.Current.Number)
	r.record(r.pub, true, "PublishedEdited", message)
	out := result{next: p.now, done: true}
	err := r.archive.restore(ctx, s, p.now)
	if err == nil {
		return out, nil
	}
	theirs, unreadable := plandoc.FromFiles(s.set.Own())
	if unreadable != nil || s.doc.Current.Plan.ByAnnotation { // the pass is tried again in any case
		return out, err
	}
	found, unreadable := ReadPlan(r.pub, theirs)
	if r.plan(ctx, p) == nil && p.made != nil && unreadable == nil {
		found = r.nodes.rename(p.in, found)
		out.differences = differences(r.pub, &found, p.made.Specs, p.in.Nodes, unwritten(r.pub, err))
	}
	return out, err
}

// rollback publishes an earlier revision again that an annotation names.
type rollback struct {
	outlets
	pub     *publication.Cluster
	archive *archive
}

// Reconcile publishes the revision. A publisher that ended after the plan was written has
// only the files and the annotation left to write. If the revision cannot be published,
// Reconcile returns why.
func (r *rollback) Reconcile(ctx context.Context, p *pass) (result, error) {
	s := p.stored
	text := s.asks(plandoc.AnnotationRollback)
	if text == "" {
		return result{}, nil
	}
	number, _ := strconv.Atoi(text) // 0 is no revision
	target := s.doc.Find(number)
	if target == nil {
		return result{held: &plandoc.Held{Reason: "RevisionUnknown", Message: fmt.Sprintf("the annotation %s=%s names no revision that is kept, which are %s; name one of them, or remove the annotation",
			plandoc.AnnotationRollback, text, s.doc.Numbers())}}, nil
	}
	switch {
	case target == &s.doc.Current:
		r.log.Warn("asked to go back to the published revision: nothing is done", "publication", r.pub.Name, "by", s.by(), "revision", number)
	case s.doc.RolledBack != number:
		if held, err := r.check(number, target); held != nil || err != nil {
			return result{held: held}, err
		}
		if err := r.savePlan(ctx, s, number, target, p.now); err != nil {
			return result{}, err
		}
	}
	for _, key := range []string{plandoc.AnnotationRollback, plandoc.AnnotationBy, plandoc.AnnotationApprove} {
		delete(s.set.Annotations, key)
	}
	return result{next: p.now, done: true}, r.archive.restore(ctx, s, p.now)
}

// check returns why the files of a revision must not be published now.
func (r *rollback) check(number int, target *plandoc.Revision) (*plandoc.Held, error) {
	files, err := plandoc.Files(&target.Plan)
	if err != nil {
		return nil, err
	}
	made := &Rendered{Files: files}
	if made.check(r.pub, target.Plan.Topologies); made.Refused != "" {
		return &plandoc.Held{Reason: made.Refused, Message: fmt.Sprintf("revision %d: %s", number, made.Message)}, nil
	}
	return nil, nil
}

// savePlan stores the plan with the earlier revision as its newest.
func (r *rollback) savePlan(ctx context.Context, s *stored, number int, target *plandoc.Revision, now time.Time) error {
	s.doc.Add(plandoc.Revision{Time: now.UTC().Truncate(time.Second), Why: fmt.Sprintf("rolled back to revision %d", number), Digest: target.Digest, FilesDigest: target.FilesDigest, Plan: target.Plan})
	s.doc.Current.Author, s.doc.RolledBack, s.doc.Held = s.by(), number, nil
	if err := r.archive.savePlan(ctx, s.doc); err != nil {
		return err
	}
	message := fmt.Sprintf("%s went back to revision %d, which is revision %d now", s.by(), number, s.doc.Current.Number)
	r.log.Warn("rolled back", "publication", r.pub.Name, "by", s.by(), "to", number, "revision", s.doc.Current.Number)
	r.record(r.pub, true, "RolledBack", message)
	return nil
}
