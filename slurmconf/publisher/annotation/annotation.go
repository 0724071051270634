// Package annotation keeps the Node annotations of one publication as its files say. It
// writes an annotation when slurmctld knows the units that it names, and never one that
// belongs to another writer.
package annotation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// Store writes annotations.
type Store interface {
	// Annotate sets the Node's annotation, or gives it up if spec is empty. It returns
	// published.ErrConflict if another writer owns the annotation.
	Annotate(ctx context.Context, node, spec string) error
}

// Recorder records events of a publication.
type Recorder interface {
	Record(p published.Place, warning bool, reason, message string)
}

// Options are what a Writer works with.
type Options struct {
	Store    Store
	Recorder Recorder // or nil
	Log      *slog.Logger
	// Writes counts writes, and Conflicts annotations that belong to another writer.
	Writes, Conflicts interface{ Inc() }
}

// Writer writes the Node annotations that go with the files of one publication.
type Writer struct {
	Options
	pub *publication.Cluster
	// others are the other publications. The annotation of a Node that one of them takes and
	// annotates too stays as it is.
	others []*publication.Cluster
	// refused are the annotations, by Node, that belong to another writer.
	refused map[string]refusal
	// waiting are the wanted annotations, by Slurm name, until the store shows them.
	waiting map[string]specSince
}

// New returns the writer of one of all publications.
func New(o Options, all []*publication.Cluster, at int) *Writer {
	return &Writer{Options: o, pub: all[at], others: slices.Concat(all[:at], all[at+1:]), refused: map[string]refusal{}}
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

// NodesATurn is the most Nodes that a pass writes, so that the next file does not wait for
// 10,000 annotations.
const NodesATurn = 50

// Result is what Reconcile found, and when it wants to be called again.
type Result struct {
	Differences []nodestatus.Difference
	again.Timer
}

// differs records a node whose annotation is not as wanted because of err.
func (r *Result) differs(n *inputs.Node, is, want string, err error) {
	r.Differences = append(r.Differences, nodestatus.Difference{Node: n, Reason: nodestatus.ReasonAnnotationDiffers,
		Is: is, Want: want, Cause: "it cannot be written", Detail: err.Error()})
}

// unjudged is a node whose annotation may still be written in time.
func unjudged(n *inputs.Node) nodestatus.Difference {
	return nodestatus.Difference{Node: n, Reason: nodestatus.ReasonAnnotationDiffers, Unjudged: true}
}

// Reconcile writes annotations once slurmctld knows the units that they name. If seen cannot
// tell, it is once slurmctld had the time to load files with the units.
func (a *Writer) Reconcile(ctx context.Context, specs map[string]string, nodes map[string]*inputs.Node, ages *plandoc.Ages, seen *loaded.View, now time.Time) (out Result, err error) {
	if !a.pub.Annotates {
		return out, nil
	}
	var due []annotation
	waiting := make(map[string]specSince)
	for slurm, n := range nodes {
		have, want := n.Annotations[published.SpecAnnotation], specs[slurm]
		if have == want {
			delete(a.refused, n.Name) // should it change again, that is another case
			continue
		}
		if a.elsewhere(n) {
			continue
		}
		if a.refused[n.Name] == (refusal{have, want}) {
			out.differs(n, have, want, published.ErrConflict)
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
		known := seen.Knows(want, a.pub.AnnotateAfter.Duration)
		if known == loaded.No { // the pass that asks Slurm again comes back to it
			out.Differences = append(out.Differences, nodestatus.Difference{Node: n, Reason: nodestatus.ReasonAnnotationDiffers,
				Is: have, Want: want, Cause: seen.WhyNot(want)})
			continue
		}
		if at := since.time.Add(a.pub.AnnotateAfter.Duration); known == loaded.Unknown && now.Before(at) {
			out.At(at)
			out.Differences = append(out.Differences, unjudged(n))
		} else {
			due = append(due, annotation{n, have, want})
		}
	}
	a.waiting = waiting
	if len(due) > NodesATurn {
		for _, d := range due[NodesATurn:] {
			out.Differences = append(out.Differences, unjudged(d.node))
		}
		due = due[:NodesATurn]
		out.At(now)
	}
	return out, a.write(ctx, &out, due)
}

// write writes annotations. A conflict is logged and not tried again until the annotation
// changes. An error is worth another try.
func (a *Writer) write(ctx context.Context, out *Result, due []annotation) error {
	errs := nodestatus.WriteEach(ctx, len(due), func(i int) error {
		a.Writes.Inc()
		return a.Store.Annotate(ctx, due[i].node.Name, due[i].spec)
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	var retry error
	var conflicts []string
	done := 0
	for i, err := range errs {
		d := due[i]
		if err != nil && !errors.Is(err, published.ErrConflict) {
			out.differs(d.node, d.old, d.spec, err)
			retry = err
			continue
		}
		if err != nil || d.spec == "" { // an annotation that stays when it is given up was another's
			a.refused[d.node.Name] = refusal{d.old, d.spec}
		}
		if err != nil {
			out.differs(d.node, d.old, d.spec, err)
			a.Conflicts.Inc()
			a.Log.Warn("node annotation belongs to another writer, not changed", "node", d.node.Name, "err", err)
			conflicts = append(conflicts, d.node.Name)
			continue
		}
		if d.spec == "" {
			out.differs(d.node, d.old, d.spec, published.ErrConflict)
		}
		done++
	}
	if done > 0 {
		a.Log.Info("annotated nodes", "publication", a.pub.Name, "nodes", done)
	}
	if len(conflicts) > 0 && a.Recorder != nil {
		a.Recorder.Record(a.pub.Place(), true, "AnnotationConflict", fmt.Sprintf("the annotation %s of %s belongs to another writer and is not changed",
			published.SpecAnnotation, hostlist.Compress(conflicts)))
	}
	return retry
}

// elsewhere reports whether another publication takes the node and annotates it.
func (a *Writer) elsewhere(n *inputs.Node) bool {
	return slices.ContainsFunc(a.others, func(c *publication.Cluster) bool { return c.Annotates && c.Rules.Wants(n) })
}

// Unjudged are the nodes that drift. Until a pass comes to the annotations, what their
// conditions say of them stays.
func (a *Writer) Unjudged(nodes map[string]*inputs.Node) []nodestatus.Difference {
	var out []nodestatus.Difference
	for _, n := range nodes {
		if n.Conditions[nodestatus.ConditionDrift].True && a.pub.Annotates && !a.elsewhere(n) {
			out = append(out, unjudged(n))
		}
	}
	return out
}

// Leaving are Nodes that the publication no longer takes, by Slurm name.
type Leaving map[string]*inputs.Node

// Leave notes in leaving that a Node outside the publication loses its annotation once its
// Slurm name is out of the files.
func (a *Writer) Leave(leaving Leaving, name string, n *inputs.Node) {
	if n != nil && !a.elsewhere(n) {
		leaving[name] = n
	}
}

// LeaveOn adds the nodes that were leaving before: the nodes that wait for their
// annotation, and the nodes that the stored plan names.
func (a *Writer) LeaveOn(leaving Leaving, snap *inputs.Snapshot, elsewhere map[string]*inputs.Node, stored []string) {
	for name := range a.waiting {
		a.Leave(leaving, name, elsewhere[name])
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
			a.Leave(leaving, "/"+n.Name, n) // no Slurm name has a slash
		}
	}
}

// Stored lists the leaving Nodes with an annotation to take back, so that the next publisher
// knows them.
func (a *Writer) Stored(leaving Leaving, specs map[string]string) []string {
	if !a.pub.Annotates {
		return nil
	}
	var nodes []string
	for name, n := range leaving {
		have := n.Annotations[published.SpecAnnotation]
		if given := a.refused[n.Name] == (refusal{old: have}); have != "" && specs[name] == "" && !given {
			nodes = append(nodes, n.Name)
		}
	}
	slices.Sort(nodes)
	return nodes
}
