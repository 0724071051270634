package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
	"github.com/quoin-hpc/quoin/topology"
)

// annotator writes the Node annotations that go with the files of one publication.
type annotator struct {
	outlets
	pub *publication.Cluster
	// before are the publications ahead of this one in the configuration, and others all
	// other ones. A Node that several take has the annotation of the first of them.
	before, others []*publication.Cluster
	// refused are the annotations, by Node, that belong to another writer.
	refused map[string]refusal
	// waiting are the wanted annotations, by Slurm name, until the store shows them.
	waiting map[string]specSince
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

// writers is how many Nodes are written at a time. nodesATurn is the most that a pass
// writes, so that the next file does not wait for 10,000 annotations.
const (
	writers    = 8
	nodesATurn = 50
)

// reconcile writes annotations once slurmctld had the time to load files with the units
// that they name.
func (a *annotator) reconcile(ctx context.Context, l *loop, specs map[string]string, nodes map[string]*inputs.Node, ages *plandoc.Ages, now time.Time) error {
	if !a.pub.Annotates {
		return nil
	}
	var due []annotation
	waiting := make(map[string]specSince)
	l.found.Differences = slices.DeleteFunc(l.found.Differences, func(d nodestatus.Difference) bool { return d.Unjudged })
	for slurm, n := range nodes {
		have, want := n.Annotations[published.SpecAnnotation], specs[slurm]
		if have == want {
			delete(a.refused, n.Name) // should it change again, that is another case
			continue
		}
		if taker(a.before, n) != nil {
			continue
		}
		if a.refused[n.Name] == (refusal{have, want}) {
			l.found.annotation(n, have, want, published.ErrConflict)
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
		if at := since.time.Add(a.pub.AnnotateAfter.Duration); now.Before(at) {
			l.At(at)
			l.found.unjudged(n)
		} else {
			due = append(due, annotation{n, have, want})
		}
	}
	a.waiting = waiting
	if len(due) > nodesATurn {
		for _, d := range due[nodesATurn:] {
			l.found.unjudged(d.node)
		}
		due = due[:nodesATurn]
		l.At(now)
	}
	return a.write(ctx, &l.found, due)
}

// write writes annotations. A conflict is logged and not tried again until the annotation
// changes. An error is worth another try.
func (a *annotator) write(ctx context.Context, found *findings, due []annotation) error {
	errs := make([]error, len(due))
	workqueue.ParallelizeUntil(ctx, writers, len(due), func(i int) {
		a.metrics.writes.WithLabelValues("node").Inc()
		errs[i] = a.store.Annotate(ctx, due[i].node.Name, due[i].spec)
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
			found.annotation(d.node, d.old, d.spec, err)
			retry = err
			continue
		}
		if err != nil || d.spec == "" { // an annotation that stays when it is given up was another's
			a.refused[d.node.Name] = refusal{d.old, d.spec}
		}
		if err != nil {
			found.annotation(d.node, d.old, d.spec, err)
			a.metrics.conflicts.Inc()
			a.log.Warn("node annotation belongs to another writer, not changed", "node", d.node.Name, "err", err)
			conflicts = append(conflicts, d.node.Name)
			continue
		}
		if d.spec == "" {
			found.annotation(d.node, d.old, d.spec, published.ErrConflict)
		}
		done++
	}
	if done > 0 {
		a.log.Info("annotated nodes", "publication", a.pub.Name, "nodes", done)
	}
	if len(conflicts) > 0 {
		a.record(a.pub, true, "AnnotationConflict", fmt.Sprintf("the annotation %s of %s belongs to another writer and is not changed",
			published.SpecAnnotation, hostlist.Compress(conflicts)))
	}
	return retry
}

// taker returns the first of the publications that takes the node and annotates it, or
// nil.
func taker(among []*publication.Cluster, n *inputs.Node) *publication.Cluster {
	for _, c := range among {
		if c.Annotates && c.Rules.Takes(n) {
			return c
		}
	}
	return nil
}

// unjudged records the nodes that drift: until the pass comes to the annotations, what
// their conditions say of them stays.
func (a *annotator) unjudged(found *findings, nodes map[string]*inputs.Node) {
	for _, n := range nodes {
		if n.Conditions[nodestatus.ConditionDrift].True && a.pub.Annotates && taker(a.before, n) == nil {
			found.unjudged(n)
		}
	}
}

// overlaps are the problems of nodes that an earlier publication annotates.
func (a *annotator) overlaps(specs map[string]string, nodes map[string]*inputs.Node) []topology.Problem {
	var problems []topology.Problem
	for slurm, n := range nodes {
		if other := taker(a.before, n); other != nil && specs[slurm] != "" {
			problems = append(problems, topology.Problem{Node: n.Name, Reason: "NodeInTwoPublications",
				Message: fmt.Sprintf("publication %q takes it too and writes its annotation: give each its own nodes", other.Name)})
		}
	}
	return problems
}

// leave notes that a Node outside the publication loses its annotation once its Slurm
// name is out of the files.
func (a *annotator) leave(g *gathered, name string, n *inputs.Node) {
	if n != nil && taker(a.others, n) == nil {
		g.leaving[name] = n
	}
}

// leaveOn adds the nodes that were leaving before: the nodes that wait for their
// annotation, and the nodes that the stored plan names.
func (a *annotator) leaveOn(g *gathered, snap *inputs.Snapshot, elsewhere map[string]*inputs.Node, leaving []string) {
	for name := range a.waiting {
		a.leave(g, name, elsewhere[name])
	}
	left := make(map[string]bool, len(leaving))
	for _, node := range leaving {
		left[node] = true
	}
	for _, n := range g.leaving {
		delete(left, n.Name)
	}
	if len(left) == 0 {
		return
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; left[n.Name] && !a.pub.Rules.Takes(n) {
			a.leave(g, "/"+n.Name, n) // no Slurm name has a slash
		}
	}
}

// leaving lists the nodes with an annotation to take back, so that the next publisher
// knows them.
func (a *annotator) leaving(g *gathered, specs map[string]string) []string {
	if !a.pub.Annotates {
		return nil
	}
	var nodes []string
	for name, n := range g.leaving {
		have := n.Annotations[published.SpecAnnotation]
		if given := a.refused[n.Name] == (refusal{old: have}); have != "" && specs[name] == "" && !given {
			nodes = append(nodes, n.Name)
		}
	}
	slices.Sort(nodes)
	return nodes
}
