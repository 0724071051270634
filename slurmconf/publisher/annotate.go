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
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
	"github.com/quoin-hpc/quoin/topology"
)

// annotation is one Node's annotation that differs from the files.
type annotation struct {
	node      *inputs.Node
	was, spec string
}

// specSince is a wanted annotation, and since when the files are like that.
type specSince struct {
	spec string
	time time.Time
}

// annotateDue writes the Node annotations that go with the published files, once
// slurmctld had the time to load them. It returns when to come back before that.
func (p *Publisher) annotateDue(ctx context.Context, s *state, specs map[string]string, nodes map[string]*inputs.Node, written, now time.Time) (time.Time, error) {
	if !s.pub.Annotates {
		return time.Time{}, nil
	}
	var due []annotation
	var next time.Time
	waiting := make(map[string]specSince)
	s.found.Differences = slices.DeleteFunc(s.found.Differences, func(d nodestatus.Difference) bool { return d.Unjudged })
	for slurm, n := range nodes {
		have, want := n.Annotations[published.SpecAnnotation], specs[slurm]
		switch {
		case have == want:
			delete(s.tried, n.Name) // should it change again, that is another case
			continue
		case p.otherAnnotates(s, n) != "":
			continue
		case s.tried[n.Name] == have+"\n"+want:
			s.annotationDiffers(n, have, want, published.ErrConflict)
			continue
		}
		since, ok := s.waiting[slurm]
		if !ok || since.spec != want { // other changes to the files do not put it off
			since = specSince{want, written}
		}
		waiting[slurm] = since // until it is seen to be right
		if at := since.time.Add(s.pub.AnnotateAfter.Duration); now.Before(at) {
			next = earlier(next, at)
			s.annotationUnjudged(n)
		} else {
			due = append(due, annotation{n, have, want})
		}
	}
	s.waiting = waiting
	return next, p.annotate(ctx, s, due)
}

// annotate writes annotations. A conflict is logged and not tried again until the
// annotation changes. An error is worth another try.
func (p *Publisher) annotate(ctx context.Context, s *state, due []annotation) error {
	errs := make([]error, len(due))
	workqueue.ParallelizeUntil(ctx, writers, len(due), func(i int) {
		p.metrics.writes.WithLabelValues("node").Inc()
		errs[i] = p.store.Annotate(ctx, due[i].node.Name, due[i].spec)
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	var retry error
	var conflicts []string
	done := 0
	for i, err := range errs {
		a := due[i]
		name := a.node.Name
		switch {
		case err == nil:
			done++
			if a.spec == "" { // if it stays, it was another's
				s.tried[name] = a.was + "\n" + a.spec
				s.annotationDiffers(a.node, a.was, a.spec, published.ErrConflict)
			}
		case errors.Is(err, published.ErrConflict):
			s.tried[name] = a.was + "\n" + a.spec
			s.annotationDiffers(a.node, a.was, a.spec, err)
			p.metrics.conflicts.Inc()
			p.log.Warn("node annotation belongs to another writer, not changed", "node", name, "err", err)
			conflicts = append(conflicts, name)
		default:
			s.annotationDiffers(a.node, a.was, a.spec, err)
			retry = err
		}
	}
	if done > 0 {
		p.log.Info("annotated nodes", "publication", s.pub.Name, "nodes", done)
	}
	if len(conflicts) > 0 && p.options.Recorder != nil {
		p.options.Recorder.Record(s.pub.Place(), true, "AnnotationConflict", fmt.Sprintf("the annotation %s of %s belongs to another writer and is not changed",
			published.SpecAnnotation, hostlist.Compress(conflicts)))
	}
	return retry
}

// writers is how many Nodes are written at a time.
const writers = 8

// otherAnnotates names an earlier publication that takes the node too and annotates it. A
// Node has one annotation.
func (p *Publisher) otherAnnotates(s *state, n *inputs.Node) string {
	for _, other := range p.states {
		if other == s {
			break
		}
		if other.pub.Annotates && other.pub.Rules.Takes(n) {
			return other.pub.Name
		}
	}
	return ""
}

// nameOverlaps adds a problem for each node that an earlier publication
// annotates.
func (p *Publisher) nameOverlaps(s *state, made *Rendered, nodes map[string]*inputs.Node) {
	if s == p.states[0] {
		return
	}
	for slurm, n := range nodes {
		if other := p.otherAnnotates(s, n); other != "" && made.Specs[slurm] != "" {
			made.Problems = append(made.Problems, topology.Problem{Node: n.Name, Reason: "NodeInTwoPublications",
				Message: fmt.Sprintf("publication %q takes it too and writes its annotation: give each its own nodes", other)})
		}
	}
}
