package publisher

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// pass brings the publication up to date. Read it first: all that the publisher does for one
// publication is one of its lines. Each line takes what the lines above returned. Nothing here waits for Slurm. pass returns what it made, and what it found of the nodes. What waits for a
// time tells the timer of the loop.
func (l *loop) pass(ctx context.Context, now time.Time) (made *Rendered, found nodestatus.Pass, err error) {
	snap, err := l.store.Snapshot(ctx)
	if err != nil {
		return nil, found, err
	}
	// See which release of Slurm runs. After a start its first answer makes the next pass.
	seen, asking := l.seenRelease(snap)
	if asking {
		return nil, found, nil
	}
	// Recall the stored plan, and what is published.
	mem, unreadable, err := l.archive.recall(ctx, snap, seen)
	if err != nil {
		return nil, found, err
	}
	if unreadable != nil { // no plan can continue from it
		_, err = l.holds.say(ctx, mem, hold{why: unreadable}, now)
		return &Rendered{Refused: unreadable[0].Reason, Message: unreadable[0].Message}, found, err
	}
	// Gather what is known of the nodes, place the nodes, render the files and lint them.
	in := l.facts.gather(snap, mem, now)
	placed := l.settle.place(in, l.Touched, now)
	unapproved := renderFiles(l.pub, in, placed, l.room(mem))
	// Follow the decision that people approve.
	kept := keep(in, unapproved, mem.request(plandoc.AnnotationApprove), func(waits func(placement.Decision) bool) *Rendered {
		return renderFiles(l.pub, in, makePlan(l.pub, in, placed.settling, waits), l.room(mem))
	})
	made = kept.made
	found = nodestatus.Pass{Plan: made.Plan, Problems: made.FilePlan.Problems, Differences: l.marks.unjudged(in),
		Fabrics: fabric.Verdicts(in.Facts, in.UnnamedFacts)}
	defer func() { l.observe(ctx, made, snap) }() // when the last answer of Slurm is judged

	// Decide what to do with the files, and do it.
	act, err := l.decide(snap, mem, in, placed, kept, now)
	if err != nil {
		return made, found, err
	}
	wrote, err := l.apply(ctx, act, mem, in, made, now)
	if wrote.startOver { // the next pass continues from what is there now
		l.At(now)
		return made, nodestatus.Pass{}, err
	}
	if err == nil {
		wrote.stored, err = l.archive.remember(ctx, wrote.stored, in, made)
	}
	l.judgeJobs(wrote.doc, made.Judged)
	l.lookAtJobs(in, placed)
	found.Differences = slices.Concat(found.Differences, wrote.differences)
	if err != nil {
		return made, found, err
	}
	// Annotate and label the Nodes as the files say, as far as Slurm has loaded the files.
	known := loaded.Known{Unjudged: true}
	var notes marked
	if wrote.specs != nil {
		known = l.lastKnown(wrote, in, made, now)
	}
	if !known.Unjudged {
		notes, err = l.marks.write(ctx, wrote, in, known.View, now)
		found.Differences = slices.Concat(wrote.differences, notes.differences)
	}
	// Say what waits, and which nodes are pending in Slurm.
	files := append(slices.Clone(wrote.waits), placed.unsited)
	nodes := []plandoc.Wait{in.missing, placed.moving, notes.waits}
	return made, found, cmp.Or(err, l.say(ctx, wrote, known, files, nodes, now))
}
