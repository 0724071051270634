package publisher

import (
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// action is what a pass does: seed, repair, rollBack, hold, waitFirst, waitNext or publish.
type action any

// seed publishes files without nodes, so that slurmctld can start before there is a plan.
type seed struct{ set *plandoc.Published }

// repair writes the files of the stored plan again, because others are there.
type repair struct{}

// rollBack publishes an earlier revision again.
type rollBack struct{ to *plandoc.Revision }

// hold keeps the published files, because what was made must not be published, or waits for
// people. next is when it may be published without people, or zero.
type hold struct {
	why  []plandoc.Held
	next time.Time
}

// waitFirst lets the first publication wait for something.
type waitFirst struct {
	why   string
	until time.Time
}

// waitNext leaves time between two publications. specs are the Topology= strings that Nodes are to
// have meanwhile.
type waitNext struct {
	until time.Time
	specs map[string]string
}

// publish publishes what was made, or the part of it that is not held.
type publish struct {
	made *Rendered
	rest *hold // or nil
}

// decide says what to do. What comes first here is done first, and the rest in a later pass.
func (l *loop) decide(snap *inputs.Snapshot, mem *stored, in *gathered, made *Rendered, now time.Time) (action, error) {
	if set, err := l.seedOf(snap, mem); set != nil || err != nil {
		return seed{set}, err
	}
	if !mem.intact() {
		return repair{}, nil
	}
	if number := mem.asks(plandoc.AnnotationRollback); number != "" {
		return back(l.pub, mem.doc, number)
	}
	if made.Refused != "" {
		return hold{why: []plandoc.Held{{Reason: made.Refused, Message: made.Message, Digest: made.Digest}}}, nil
	}
	if why, until := l.first.waits(in.Facts, in.prev.Plan, made.Plan, now); why != "" {
		return waitFirst{why, until}, nil
	}
	if why, next := waits(l.pub, mem, in, made, now); why != nil {
		held := hold{[]plandoc.Held{*why}, next}
		if tree := treeAlone(l.pub, mem, in, made, why, l.room(mem), now); tree != nil {
			return publish{tree, &held}, nil
		}
		return held, nil
	}
	until, err := spaced(l.pub, mem, made, now)
	if err != nil {
		return nil, err
	}
	if !until.IsZero() {
		return waitNext{until, meanwhile(l.pub, in, made)}, nil
	}
	return publish{made: made}, nil
}
