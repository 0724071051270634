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
// publisher ended between the plan and the files, or they belong to another place now. If that
// fails, repair returns which nodes have another place in the files of somebody else.
func (l *loop) repair(ctx context.Context, mem *stored, in *gathered, made *Rendered, now time.Time) (outcome, error) {
	reason, message := reasonPublishedEdited, "the published files differ from the stored plan: written again"
	if old := mem.doc.Place; old != l.pub.Place().String() && len(mem.set.Own()) == 0 {
		reason, message = reasonMoved, fmt.Sprintf("the files are in %s now; those in %s stay as they are: let Slurm read the new ones, and delete the old ones then", l.pub.Place(), old)
	}
	l.log.Warn(message, "publication", l.pub.Name, "place", l.pub.Place().String(), "revision", mem.doc.Current.Number)
	l.record(l.pub, true, reason, message)
	err := l.archive.restore(ctx, mem.doc, mem.set, now)
	if err == nil {
		return outcome{startOver: true}, nil
	}
	theirs, unreadable := plandoc.FromFiles(mem.set.Own())
	if unreadable != nil || mem.doc.Current.Plan.ByAnnotation || made.Plan == nil {
		return outcome{startOver: true}, err // nothing is known of the nodes
	}
	seats := l.facts.seats
	found := seats.rename(&in.Inputs, seats.lastSeats(&in.Inputs), ReadPlan(l.pub, theirs))
	return outcome{stored: mem, differences: differences(l.pub, &found, made.Specs, in.Nodes, unwritten(l.pub, err))}, err
}

// rollBackTo goes back to the revision that text has the number of. If the revision is not kept or
// cannot be published, the files are held.
func rollBackTo(p *publication.Cluster, doc *plandoc.Document, text string) (action, error) {
	number, _ := strconv.Atoi(text) // 0 is no revision
	to := doc.Find(number)
	if to == nil {
		return hold{why: []plandoc.Held{{Reason: reasonRevisionUnknown, Message: fmt.Sprintf("the annotation %s=%s names no revision that is kept: name one of %s, or remove the annotation",
			plandoc.AnnotationRollback, text, doc.Numbers())}}}, nil
	}
	if to == &doc.Current || doc.RolledBack == number { // the plan is written already
		return rollBack{to}, nil
	}
	files, err := to.Plan.Files()
	if err != nil {
		return nil, err
	}
	if judged := lint(p, &Rendered{FilePlan: to.Plan, Files: files}); judged.Refused != "" {
		return hold{why: []plandoc.Held{{Reason: judged.Refused, Message: fmt.Sprintf("revision %d: %s", number, judged.Message)}}}, nil
	}
	return rollBack{to}, nil
}

// rollBack publishes the revision again as the newest. A publisher that ended after the plan was
// written has only the files and the annotation left to write.
func (l *loop) rollBack(ctx context.Context, mem *stored, act rollBack, now time.Time) (err error) {
	doc, to := mem.doc, act.to
	switch {
	case to == &doc.Current:
		l.log.Warn("asked to go back to the published revision: nothing is done", "publication", l.pub.Name, "by", mem.by(), "revision", to.Number)
	case doc.RolledBack != to.Number:
		if doc, err = l.saveRevision(ctx, mem, to, now); err != nil {
			return err
		}
	}
	return l.archive.restore(ctx, doc, mem.set, now, plandoc.AnnotationRollback, plandoc.AnnotationBy, plandoc.AnnotationApprove)
}

// saveRevision stores the plan with the earlier revision as its newest.
func (l *loop) saveRevision(ctx context.Context, mem *stored, to *plandoc.Revision, now time.Time) (*plandoc.Document, error) {
	doc := mem.doc.Clone()
	doc.Add(plandoc.Revision{Time: now.UTC().Truncate(time.Second), Author: mem.by(), Why: fmt.Sprintf("rolled back to revision %d", to.Number), Digest: to.Digest, FilesDigest: to.FilesDigest, Plan: to.Plan})
	doc.RolledBack, doc.Held, doc.Wanted = to.Number, nil, nil
	doc, err := l.archive.savePlan(ctx, doc)
	if err != nil {
		return nil, err
	}
	l.log.Warn("rolled back", "publication", l.pub.Name, "by", mem.by(), "to", to.Number, "revision", doc.Current.Number)
	l.record(l.pub, true, reasonRolledBack, fmt.Sprintf("%s went back to revision %d, which is revision %d now", mem.by(), to.Number, doc.Current.Number))
	return doc, nil
}
