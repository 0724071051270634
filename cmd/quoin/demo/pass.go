package demo

import (
	"context"
	"strconv"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// pass makes the plan and the files that a publisher makes of the store, and writes them. It does so
// at once: nothing settles, is held or annotated, and nodes that are gone leave now. A refused result
// is returned and not written.
func (d *demonstration) pass(ctx context.Context) (*publisher.Rendered, []topology.Facts, error) {
	pub := d.Publication
	snap, err := d.store.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	doc, err := d.store.LoadPlan(ctx, pub.Name)
	if err != nil {
		return nil, nil, err
	}
	if doc == nil {
		doc = plandoc.New(pub.Name, pub.Place().String())
	}
	prev, err := publisher.ReadPlan(pub, &doc.Current.Plan)
	if err != nil {
		return nil, nil, err
	}
	in := pub.Rules.Gather(snap)
	made, err := publisher.Make(pub, in, prev)
	if err != nil || made.Refused != "" {
		return made, in.Facts, err
	}
	return made, in.Facts, d.publish(ctx, doc, made)
}

// publish writes what was made: the plan as a new revision, if it differs, and then the files.
func (d *demonstration) publish(ctx context.Context, doc *plandoc.Document, made *publisher.Rendered) error {
	if old := doc.Current; old.Digest != made.Digest || old.OfFiles() != plandoc.Digest(made.Files) {
		plan, err := made.Document()
		if err != nil {
			return err
		}
		r := plandoc.Revision{Time: time.Now().UTC().Truncate(time.Second), Author: "quoin-publisher", Why: "first publication", Digest: made.Digest, Plan: plan}
		if old.Number > 0 {
			changes := plandoc.Compare(&old.Plan, &plan)
			r.Why = changes.Summary(mostMoves)
		}
		if made.ByAnnotation {
			r.FilesDigest = plandoc.Digest(made.Files)
		}
		doc.Add(r)
		if err := d.store.SavePlan(ctx, doc); err != nil {
			return err
		}
	}
	set := &plandoc.Published{Files: made.Files, Annotations: map[string]string{
		plandoc.AnnotationRevision:  strconv.Itoa(doc.Current.Number),
		plandoc.AnnotationDigest:    doc.Current.OfFiles(),
		plandoc.AnnotationPublished: doc.Current.Time.Format(time.RFC3339),
	}}
	set.Say(plandoc.AnnotationLeftOut, made.LeftOut)
	return d.store.Save(ctx, d.Publication.Place(), set)
}

// mostMoves is how many moves the reason of a revision names.
const mostMoves = 10
