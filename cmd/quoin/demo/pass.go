package demo

import (
	"context"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// pass makes the plan and the files that a publisher makes of the store, and writes them. It does so
// at once: nothing settles, is held or annotated, and nodes that are gone leave now. A refused result
// is returned and not written. The site is what a map shows of it.
func (d *demonstration) pass(ctx context.Context) (*publisher.Rendered, *picture.Site, error) {
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
	made, err := publisher.Make(pub, pub.Rules.Gather(snap), publisher.ReadPlan(pub, &doc.Current.Plan))
	if err != nil {
		return nil, nil, err
	}
	site := &picture.Site{Plan: made.Plan, Facts: made.Judged, Said: fabricsSaid(made.Judged)}
	if made.Refused != "" {
		return made, site, nil
	}
	return made, site, d.publish(ctx, doc, made)
}

// fabricsSaid is what the publisher's conditions say of the nodes' NVLink fabrics. It is nil if no fabric is faulty.
func fabricsSaid(facts []topology.Facts) map[string]picture.Said {
	said, faulty := map[string]picture.Said{}, false
	for i := range facts {
		f := &facts[i]
		if c, known := nodestatus.FabricCondition(f.Report, &f.Fabric); known {
			said[f.SlurmName] = picture.Said{Fabric: picture.Verdict{Wrong: c.True, Reason: c.Reason, Message: c.Message}}
			faulty = faulty || c.True
		}
	}
	if !faulty {
		return nil
	}
	return said
}

// publish writes what was made: the plan as a new revision, if it differs, and then the files.
func (d *demonstration) publish(ctx context.Context, doc *plandoc.Document, made *publisher.Rendered) error {
	now := time.Now()
	if !made.IsRevision(&doc.Current) {
		doc.Add(made.Revision(&doc.Current, made.Changes(&doc.Current), now))
		if _, err := d.store.SavePlan(ctx, doc); err != nil {
			return err
		}
	}
	place := d.Publication.Place()
	set, err := d.store.Load(ctx, place)
	if err != nil {
		return err
	}
	set = set.Clone()
	set.Put(&doc.Current, made.Files, now)
	set.Say(plandoc.AnnotationLeftOut, plandoc.LeftOut(made.Left))
	_, err = d.store.Save(ctx, place, set)
	return err
}
