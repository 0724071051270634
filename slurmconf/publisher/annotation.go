package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// annotator keeps the Node annotations of one publication as its files say. It writes an
// annotation when slurmctld knows the units that it names, and never one that belongs to
// another writer.
type annotator struct {
	outlets
	pub *publication.Cluster
	// others are the other publications. The annotation of a Node that one of them takes and
	// annotates too stays as it is.
	others []*publication.Cluster
	// refused are the annotations, by Node, that belong to another writer.
	refused map[string]refusal
	// waiting are the wanted annotations, by Slurm name, until the store shows them.
	waiting map[string]specSince
	// writes counts written annotations.
	writes prometheus.Counter
}

// refusal is an annotation that could not be changed, and what was wanted.
type refusal struct{ old, spec string }

// specSince is a wanted annotation, and since when the files have its units.
type specSince struct {
	spec string
	time time.Time
}

// annotation is one Node's annotation that differs from the files.
type annotation struct {
	node      *inputs.Node
	old, spec string
}

// annotated is what became of the annotations.
type annotated struct {
	// differences are the nodes whose annotation is not as wanted.
	differences []nodestatus.Difference
	// waits are nodes whose annotation names a unit that Slurm may not have loaded yet.
	waits plandoc.Wait
	// next is when to write further annotations, or zero.
	next time.Time
}

// differs records a node whose annotation is not as wanted because of err.
func (r *annotated) differs(n *inputs.Node, is, want string, err error) {
	r.differences = append(r.differences, nodestatus.Difference{Node: n, Reason: nodestatus.ReasonAnnotationDiffers,
		Is: is, Want: want, Cause: "it cannot be written", Detail: err.Error()})
}

// notJudged is a node whose annotation may still be written in time.
func notJudged(n *inputs.Node) nodestatus.Difference {
	return nodestatus.Difference{Node: n, Reason: nodestatus.ReasonAnnotationDiffers, Unjudged: true}
}

// lastKnown returns how far the places of nodes have come in Slurm, as Slurm said last. If Slurm has yet
// to say anything, no Node is annotated with what Slurm may lack.
func (l *loop) lastKnown(out outcome, in *gathered, made *Rendered, now time.Time) loaded.Known {
	at := &loaded.Input{Doc: out.doc, Planned: out.specs, Published: out.specs, Nodes: in.Nodes, LoadTimeout: l.pub.LoadTimeout.Duration, Now: now}
	if made.Plan != nil {
		at.Planned = made.Specs
	}
	if renamed := in.prev.renamed; len(renamed) > 0 && !made.IsRevision(&out.doc.Current) { // Slurm still has the old names
		at.Planned, at.Published, at.Nodes = asPublished(at.Planned, renamed), asPublished(at.Published, renamed), asPublished(at.Nodes, renamed)
	}
	return l.watch.Reconcile(at)
}

// annotate writes annotations once slurmctld knows the units that they name. If seen cannot
// tell, it is once slurmctld had the time to load files with the units.
func (a *annotator) annotate(ctx context.Context, files outcome, nodes map[string]*inputs.Node, seen *loaded.View, now time.Time) (out annotated, err error) {
	if !a.pub.Annotates {
		return out, nil
	}
	ages := files.doc.Ages(files.written(now))
	out.waits = plandoc.Wait{Key: loadTimeout, For: "nodes get annotations with new blocks or switches"}
	var due []annotation
	waiting := make(map[string]specSince)
	for slurm, n := range nodes {
		have, want := n.Annotations[plandoc.SpecAnnotation], files.specs[slurm]
		if have == want {
			delete(a.refused, n.Name) // should it change again, that is another case
			continue
		}
		if a.elsewhere(n) {
			continue
		}
		if a.refused[n.Name] == (refusal{have, want}) {
			out.differs(n, have, want, plandoc.ErrConflict)
			continue
		}
		since, ok := a.waiting[slurm]
		if !ok || since.spec != want { // other changes to the files do not put it off
			since = specSince{want, ages.Since(want)}
			if since.time.After(now) { // the clock was ahead then
				since.time = now
			}
		}
		waiting[slurm] = since // until it is seen to be right
		known := seen.Knows(want)
		if known == loaded.No { // the pass that asks Slurm again comes back to it
			out.differences = append(out.differences, nodestatus.Difference{Node: n, Reason: nodestatus.ReasonAnnotationDiffers,
				Is: have, Want: want, Cause: seen.WhyNot(want)})
			continue
		}
		if at := since.time.Add(a.pub.LoadTimeout.Duration); known == loaded.Unknown && now.Before(at) {
			out.waits.Add(at)
			out.differences = append(out.differences, notJudged(n))
		} else {
			due = append(due, annotation{n, have, want})
		}
	}
	a.waiting = waiting
	if len(due) > nodestatus.NodesATurn {
		for _, d := range due[nodestatus.NodesATurn:] {
			out.differences = append(out.differences, notJudged(d.node))
		}
		due = due[:nodestatus.NodesATurn]
		out.next = now
	}
	out.next = again.First(out.next, out.waits.Until)
	return out, a.write(ctx, &out, due)
}

// write writes annotations. A conflict is logged and not tried again until the annotation
// changes. An error is worth another try.
func (a *annotator) write(ctx context.Context, out *annotated, due []annotation) error {
	errs := nodestatus.WriteEach(ctx, len(due), func(i int) error {
		a.writes.Inc()
		return a.store.Annotate(ctx, due[i].node.Name, due[i].spec)
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	var retry error
	var conflicts []string
	done := 0
	for i, err := range errs {
		d := due[i]
		if err != nil && !errors.Is(err, plandoc.ErrConflict) {
			out.differs(d.node, d.old, d.spec, err)
			retry = err
			continue
		}
		if err != nil || d.spec == "" { // an annotation that stays when it is given up was another's
			a.refused[d.node.Name] = refusal{d.old, d.spec}
		}
		if err != nil {
			out.differs(d.node, d.old, d.spec, err)
			a.metrics.conflicts.Inc()
			a.log.Warn("node annotation belongs to another writer, not changed", "node", d.node.Name, "err", err)
			conflicts = append(conflicts, d.node.Name)
			continue
		}
		if d.spec == "" {
			out.differs(d.node, d.old, d.spec, plandoc.ErrConflict)
		}
		done++
	}
	if done > 0 {
		a.log.Info("annotated nodes", "publication", a.pub.Name, "nodes", done)
	}
	if len(conflicts) > 0 {
		a.record(a.pub, true, "AnnotationConflict", fmt.Sprintf("the annotation %s of %s belongs to another writer and is not changed",
			plandoc.SpecAnnotation, hostlist.Compress(conflicts)))
	}
	return retry
}

// elsewhere reports whether another publication takes the node and annotates it.
func (a *annotator) elsewhere(n *inputs.Node) bool {
	return slices.ContainsFunc(a.others, func(c *publication.Cluster) bool { return c.Annotates && c.Rules.Wants(n) })
}

// unjudged are the nodes that drift. Until a pass comes to the annotations, what their
// conditions say of them stays.
func (a *annotator) unjudged(nodes map[string]*inputs.Node) []nodestatus.Difference {
	var out []nodestatus.Difference
	for _, n := range nodes {
		if n.Conditions[nodestatus.ConditionDrift].True && a.pub.Annotates && !a.elsewhere(n) {
			out = append(out, notJudged(n))
		}
	}
	return out
}

// leavingNodes are Nodes that the publication no longer takes, by Slurm name.
type leavingNodes map[string]*inputs.Node

// leave notes in leaving that a Node outside the publication loses its annotation once its
// Slurm name is out of the files.
func (a *annotator) leave(leaving leavingNodes, name string, n *inputs.Node) {
	if n != nil && !a.elsewhere(n) {
		leaving[name] = n
	}
}

// leaveAsBefore adds the nodes that were leaving before: the nodes that wait for their
// annotation, and the nodes that the stored plan names.
func (a *annotator) leaveAsBefore(leaving leavingNodes, snap *inputs.Snapshot, elsewhere map[string]*inputs.Node, stored []string) {
	for name := range a.waiting {
		a.leave(leaving, name, elsewhere[name])
	}
	left := make(map[string]bool, len(stored))
	for _, node := range stored {
		left[node] = true
	}
	for _, n := range leaving {
		delete(left, n.Name)
	}
	if len(left) == 0 {
		return
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; left[n.Name] && !a.pub.Rules.Takes(n) {
			a.leave(leaving, "/"+n.Name, n) // no Slurm name has a slash
		}
	}
}

// toTakeBack lists the leaving Nodes with an annotation to take back, so that the next publisher
// knows them.
func (a *annotator) toTakeBack(leaving leavingNodes, specs map[string]string) []string {
	if !a.pub.Annotates {
		return nil
	}
	var nodes []string
	for name, n := range leaving {
		have := n.Annotations[plandoc.SpecAnnotation]
		if given := a.refused[n.Name] == (refusal{old: have}); have != "" && specs[name] == "" && !given {
			nodes = append(nodes, n.Name)
		}
	}
	slices.Sort(nodes)
	return nodes
}
