package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// annotation is one Node's annotation that differs from the files.
type annotation struct{ node, was, spec string }

// specSince is an annotation to be, and since when the files are so.
type specSince struct {
	spec string
	time time.Time
}

// annotateDue annotates Nodes once slurmctld has had the time to load the
// files, and returns when to come back before that.
func (p *Publisher) annotateDue(ctx context.Context, s *state, was *Published, made *Made, nodes map[string]*Node, now time.Time) (time.Time, error) {
	if !*s.pub.Annotate || !s.pub.release.DynamicTopology() {
		return time.Time{}, nil
	}
	published := publishedAt(was, made, now)
	var due []annotation
	var next time.Time
	waiting := make(map[string]specSince)
	for slurm, n := range nodes {
		have, want := n.Annotations[SpecAnnotation], made.Specs[slurm]
		if have == want {
			delete(s.tried, n.Name) // should it change again, that is another case
			continue
		}
		if s.tried[n.Name] == have+"\n"+want || p.otherAnnotates(s, n) != "" {
			continue
		}
		since, ok := s.waiting[slurm]
		if !ok || since.spec != want { // other changes to the files do not put it off
			since = specSince{want, published}
		}
		if at := since.time.Add(s.pub.AnnotateAfter.Duration); now.Before(at) {
			waiting[slurm] = since
			next = earlier(next, at)
		} else {
			due = append(due, annotation{n.Name, have, want})
		}
	}
	s.waiting = waiting
	if len(due) == 0 {
		return next, nil
	}
	if err := p.annotate(ctx, s, due); err != nil {
		return next, err
	}
	p.log.Info("annotated nodes", "publication", s.pub.Name, "nodes", len(due))
	return next, nil
}

// publishedAt is when the files that the plan gives were written: now, when
// they were not the published ones.
func publishedAt(was *Published, made *Made, now time.Time) time.Time {
	if was.empty() || was.Annotations[AnnotationDigest] != made.Digest {
		return now
	}
	at, err := time.Parse(time.RFC3339, was.Annotations[AnnotationPublished])
	if err != nil {
		return now
	}
	return at
}

// annotate brings the Nodes' annotations up to the published files, 8 at a time.
func (p *Publisher) annotate(ctx context.Context, s *state, wanted []annotation) error {
	work, results := make(chan annotation), make(chan error)
	go func() {
		defer close(work)
		for _, a := range wanted {
			select {
			case work <- a:
			case <-ctx.Done():
				return
			}
		}
	}()
	const workers = 8
	for range workers {
		go func() {
			var failed error
			for a := range work {
				p.metrics.writes.WithLabelValues("node").Inc()
				if err := p.store.Annotate(ctx, a.node, a.spec); err != nil {
					failed = errors.Join(failed, annotateError{a, err})
				}
			}
			results <- failed
		}()
	}
	var failed error
	for range workers {
		failed = errors.Join(failed, <-results)
	}
	return p.sortAnnotateErrors(s, failed)
}

type annotateError struct {
	annotation
	err error
}

func (e annotateError) Error() string { return e.err.Error() }

func (e annotateError) Unwrap() error { return e.err }

// sortAnnotateErrors names conflicts, which are not tried again until the
// annotation changes, and returns what is worth another try.
func (p *Publisher) sortAnnotateErrors(s *state, failed error) error {
	var retry error
	var conflicts []string
	walk(failed, func(e annotateError) {
		if errors.Is(e.err, ErrConflict) {
			s.tried[e.node] = e.was + "\n" + e.spec
			p.metrics.conflicts.Inc()
			p.log.Warn("node annotation has another owner, left alone", "node", e.node, "err", e.err)
			conflicts = append(conflicts, e.node)
			return
		}
		retry = e.err
	})
	if len(conflicts) > 0 && p.recorder != nil {
		p.recorder.Record(s.pub, true, "AnnotationConflict", fmt.Sprintf("the annotation %s of %s has another owner and is left alone",
			SpecAnnotation, slurmconf.CompressHostlist(conflicts)))
	}
	return retry
}

// walk calls visit for every annotateError in a tree of joined errors.
func walk(err error, visit func(annotateError)) {
	if e, ok := err.(annotateError); ok { //nolint:errorlint // the tree is walked by hand
		visit(e)
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the tree is walked by hand
		for _, e := range many.Unwrap() {
			walk(e, visit)
		}
	}
}

// otherAnnotates names the publication before s that takes the node too and
// annotates it: a Node has one annotation.
func (p *Publisher) otherAnnotates(s *state, n *Node) string {
	for _, other := range p.states {
		if other == s {
			break
		}
		if *other.pub.Annotate && other.pub.release.DynamicTopology() && other.pub.takes(n) {
			return other.pub.Name
		}
	}
	return ""
}

// nameOverlaps adds a problem for each node that an earlier publication
// annotates.
func (p *Publisher) nameOverlaps(s *state, made *Made, nodes map[string]*Node) {
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
