package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// writer writes plan and files.
type writer struct {
	outlets
	pub         *publication.Cluster
	archive     *archive
	nodes       *nodeHistory
	annotations *annotator
}

// Reconcile writes plan and files if they differ.
func (w *writer) Reconcile(ctx context.Context, p *pass) (r result, err error) {
	if p.write == nil {
		return r, nil
	}
	made := p.write
	written, changes, err := w.archive.publish(ctx, p, made, w.annotations.toTakeBack(p.in.leaving, made.Specs))
	if err != nil {
		r.differences = differences(w.pub, &p.in.prev, made.Specs, p.in.Nodes, unwritten(w.pub, err))
		return r, err
	}
	if changes == nil {
		w.metrics.passes.WithLabelValues(w.pub.Name, "unchanged").Inc()
		w.log.Debug("unchanged", "publication", w.pub.Name)
	} else {
		w.metrics.passes.WithLabelValues(w.pub.Name, "published").Inc()
		current := &p.stored.doc.Current
		w.log.Info("published", "publication", w.pub.Name, "place", w.pub.Place().String(), "revision", current.Number, "digest", made.Digest,
			"blocks", len(made.Plan.Blocks()), "switches", len(made.Plan.Switches()), "nodes", len(made.Specs), "moved", len(changes.Moves), "by", current.Author, "why", current.Why)
		w.record(w.pub, false, "Published", fmt.Sprintf("revision %d, digest %s: %s; %s", current.Number, made.Digest, made.Summary(), current.Why))
	}
	w.nodes.wrote(p.in)
	w.metrics.status.Places.Set(w.pub.Name, nodestatus.PlacesOf(made.places(), p.in.Facts, p.in.Nodes))
	r.specs, r.written = made.Specs, written
	if p.held != nil { // the reason is added to what was just written
		r.stored, _, err = w.archive.recall(ctx)
	}
	return r, err
}

// lookout finds out how far the places of nodes have come in Slurm.
type lookout struct {
	*loaded.Watch
	archive *archive
}

// Reconcile says in an annotation which nodes are behind as Slurm said last. If Slurm has yet to say
// anything, the pass ends: no Node is annotated with what Slurm may lack.
func (o lookout) Reconcile(ctx context.Context, p *pass) (r result, err error) {
	if p.specs == nil {
		return r, nil
	}
	in := &loaded.Input{Doc: p.stored.doc, Planned: p.specs, Published: p.specs, Nodes: p.in.Nodes, Now: p.now}
	if p.made != nil { // or no plan could be made
		in.Planned = p.made.Specs
	}
	known := o.Watch.Reconcile(in)
	if r.seen, r.done = known.View, known.Waits; r.done {
		return r, nil
	}
	has := p.stored.set.Clone().Annotations
	if has[plandoc.AnnotationBehind] == known.Text && plandoc.Asked(has).IsZero() == known.Asked.IsZero() {
		return r, nil
	}
	s, _, err := o.archive.recall(ctx) // as it was just written
	if err != nil || s.set == nil {
		return r, err
	}
	asked := ""
	if !known.Asked.IsZero() {
		asked = known.Asked.UTC().Format(time.RFC3339)
	}
	s.set.Say(plandoc.AnnotationAsked, asked)
	s.set.Say(plandoc.AnnotationBehind, known.Text)
	return r, o.archive.saveFiles(ctx, s.set)
}
