package publisher

import (
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// action is what a pass does: seed, repair, rollBack, hold, wait or publish.
type action any

// seed publishes files without nodes, so that slurmctld can start before there is a plan.
type seed struct{ set *plandoc.Published }

// repair writes the files of the stored plan again, because others are there.
type repair struct{}

// rollBack publishes an earlier revision again.
type rollBack struct{ to *plandoc.Revision }

// hold keeps the published files, because what was made must not be published, or waits for
// people. Beside publish or wait it only says what is held: nothing, if why is empty. wanted makes
// what would be published if nothing was held. It is nil if nobody knows that. next is when fewer nodes count for a big
// change, or zero.
type hold struct {
	why    []plandoc.Held
	wanted func() *Rendered
	next   time.Time
}

// wait lets a publication wait for a time: the first one for something, the next one so that there is time between two.
// specs are the Topology= strings that Nodes are to have meanwhile. It is nil before the first publication.
type wait struct {
	plandoc.Wait
	specs map[string]string
	held  hold
}

// publish publishes what was made. counted are the nodes that count for a big change, and changes is what the new
// revision changes: nil if what was made is published already. approved says that people have approved it, or a
// decision of it.
type publish struct {
	made     *Rendered
	counted  *change
	changes  *plandoc.Changes
	approved bool
	held     hold
}

// decide says what to do. What comes first here is done first, and the rest in a later pass.
func (l *loop) decide(snap *inputs.Snapshot, mem *stored, in *gathered, placed placed, kept kept, now time.Time) (action, error) {
	made := kept.made
	if set, err := l.seedOf(snap, mem); set != nil || err != nil {
		return seed{set}, err
	}
	if !mem.intact() {
		return repair{}, nil
	}
	if number := mem.request(plandoc.AnnotationRollback); number != "" {
		return rollBackTo(l.pub, mem.doc, number)
	}
	if made.Refused != "" {
		why := plandoc.Held{Reason: made.Refused, Message: made.Message, Digest: made.Digest}
		return hold{why: append([]plandoc.Held{why}, kept.held...), wanted: kept.wanted}, nil
	}
	if why := l.stillDiffers(mem.doc); why != nil {
		return hold{why: why, wanted: kept.wanted}, nil
	}
	if slices.ContainsFunc(kept.held, func(h plandoc.Held) bool { return !h.Alone }) {
		return hold{why: kept.held, wanted: kept.wanted}, nil
	}
	var held hold
	switch {
	case len(kept.held) > 0:
		held = hold{why: kept.held, wanted: kept.wanted}
	case !placed.moving.Until.IsZero() && now.Before(l.first.started.Add(l.pub.Times.Confirm)):
		held.why = mem.doc.Held // an earlier publisher may have waited long enough: its holds stay until this one knows
	}
	if why, until := l.first.waitForDomains(in.Facts, in.prev.Plan, made.Plan, placed.found.Unsited, now); why != "" {
		return wait{plandoc.Wait{Key: settleTime, For: "the first publication waits for " + why, Until: until}, nil, held}, nil
	}
	counted := changeOf(l.pub, mem, in, kept.unapproved)
	if why, next := holdAll(l.pub, mem, counted, kept.unapproved, now); why != nil {
		all := append([]plandoc.Held{*why}, kept.held...)
		if kept.approved != nil { // it waits too
			all = append(all, *kept.approved)
		}
		return hold{all, kept.wanted, next}, nil
	}
	if kept.unapproved != made {
		counted = changeOf(l.pub, mem, in, made)
	}
	changes := made.changes(&mem.doc.Current)
	approved := kept.approved != nil || mem.request(plandoc.AnnotationApprove) == made.Digest
	if !approved {
		if until := spaced(l.pub, mem, made, changes, now); !until.IsZero() {
			later := plandoc.Wait{Key: spacing, For: "nodes that join or leave known blocks and switches are published then", Until: until}
			return wait{later, specsMeanwhile(l.pub, in, made), held}, nil
		}
	}
	return publish{made, counted, changes, approved, held}, nil
}
