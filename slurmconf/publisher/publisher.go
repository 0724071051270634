package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// Store is where facts come from and publications go.
type Store interface {
	Source
	Sink
}

// Recorder tells people of something that happened to a publication, such as
// by a Kubernetes event.
type Recorder interface {
	Record(p *Publication, warning bool, reason, message string)
}

// Publisher keeps the publications as the facts say.
type Publisher struct {
	store    Store
	recorder Recorder
	log      *slog.Logger
	metrics  *Metrics
	states   []*state
}

// state is what the publisher remembers of one publication between passes. All
// of it can be lost: it is made again from the store.
type state struct {
	pub *Publication
	// due is when the next pass is made; dirty when the first change since the
	// last pass came.
	due, dirty time.Time
	started    time.Time
	firstSince time.Time // when the first publication, or the first with blocks, could have been
	known      int       // nodes with a report or a clique's label, before the first publication
	knownSince time.Time // when their number last changed
	failures   int
	gone       map[string]time.Time      // Slurm name -> when first missed
	tried      map[string]string         // node -> annotation that another writer's stood against
	waiting    map[string]specSince      // Slurm name -> annotation that is not due yet
	last       *Published                // as last written, should somebody delete it
	heldAt     time.Time                 // when the store was last told why files are held
	said       string                    // the last reason that was logged
	problems   map[topology.Problem]bool // those that were logged
}

// New returns a publisher of complete publications. recorder may be nil.
func New(store Store, pubs []Publication, recorder Recorder, metrics *Metrics, log *slog.Logger) *Publisher {
	p := &Publisher{store: store, recorder: recorder, log: log, metrics: metrics}
	for i := range pubs {
		p.states = append(p.states, &state{pub: &pubs[i], gone: map[string]time.Time{}, tried: map[string]string{}})
	}
	return p
}

// Run publishes until ctx ends. Only the leader runs it.
func (p *Publisher) Run(ctx context.Context) error {
	p.metrics.leader.Set(1)
	defer p.metrics.leader.Set(0)
	p.log.Info("publishing", "publications", len(p.states))
	now := time.Now()
	for _, s := range p.states {
		s.started = now
		s.touch(now)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.store.Changes():
			now := time.Now()
			for _, s := range p.states {
				s.touch(now)
			}
		case <-timer.C:
			p.pass(ctx)
		}
		timer.Reset(time.Until(p.nextDue()))
	}
}

// touch notes a change: the pass is made when facts have been quiet for
// Settle, and at the latest SettleMax after the first change.
func (s *state) touch(now time.Time) {
	if s.dirty.IsZero() {
		s.dirty = now
	}
	due := now.Add(s.pub.Settle.Duration)
	if latest := s.dirty.Add(s.pub.SettleMax.Duration); due.After(latest) {
		due = latest
	}
	if s.failures == 0 || due.After(s.due) {
		s.due = due
	}
}

// idle is how far away a pass is that nothing asks for.
const idle = 24 * time.Hour

func (p *Publisher) nextDue() time.Time {
	next := time.Now().Add(idle)
	for _, s := range p.states {
		if !s.due.IsZero() && s.due.Before(next) {
			next = s.due
		}
	}
	return next
}

// pass reconciles every publication that is due.
func (p *Publisher) pass(ctx context.Context) {
	for _, s := range p.states {
		if s.due.IsZero() || s.due.After(time.Now()) {
			continue
		}
		s.due, s.dirty = time.Time{}, time.Time{}
		began := time.Now()
		again, err := p.reconcile(ctx, s)
		p.metrics.duration.WithLabelValues(s.pub.Name).Observe(time.Since(began).Seconds())
		if err != nil && ctx.Err() == nil {
			s.failures++
			again = time.Now().Add(min(5*time.Second<<min(s.failures-1, 4), time.Minute))
			p.fail(s, err)
		} else {
			s.failures = 0
		}
		if !again.IsZero() && (s.due.IsZero() || again.Before(s.due)) {
			s.due = again
		}
	}
}

// fail says once what went wrong with a pass; the files stay as they are.
func (p *Publisher) fail(s *state, err error) {
	p.metrics.passes.WithLabelValues(s.pub.Name, "error").Inc()
	if s.said == err.Error() {
		return
	}
	s.said = err.Error()
	p.log.Error("pass failed, the published files stay", "publication", s.pub.Name, "err", err)
}

// heldPause is the time between two writes of what is held for one reason, for
// facts may go back and forth.
const heldPause = time.Minute

// hold leaves the published files as they are and says why, once.
func (p *Publisher) hold(ctx context.Context, s *state, was *Published, digest, reason, message string) error {
	p.metrics.passes.WithLabelValues(s.pub.Name, "held").Inc()
	p.metrics.setHeld(s.pub.Name, reason)
	text := reason + ": " + message
	if s.said != text {
		s.said = text
		p.log.Warn("held back, the published files stay", "publication", s.pub.Name, "reason", reason, "message", message, "digest", digest)
		if p.recorder != nil {
			p.recorder.Record(s.pub, true, reason, message)
		}
	}
	if was == nil || was.Annotations[AnnotationHeld] == digest && was.Annotations[AnnotationHeldReason] == text {
		return nil
	}
	if again := s.heldAt.Add(heldPause); strings.HasPrefix(was.Annotations[AnnotationHeldReason], reason+": ") && time.Now().Before(again) {
		s.due = again
		return nil
	}
	s.heldAt = time.Now()
	next := was.clone()
	next.Annotations[AnnotationHeld], next.Annotations[AnnotationHeldReason] = digest, text
	return p.save(ctx, s, next)
}

func (p *Publisher) save(ctx context.Context, s *state, out *Published) error {
	p.metrics.writes.WithLabelValues("publication").Inc()
	return p.store.Save(ctx, s.pub, out)
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

// annotation is one Node's annotation that differs from the files.
type annotation struct{ node, was, spec string }

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

// takenByAnother reports whether another publication has the node now.
func (p *Publisher) takenByAnother(s *state, n *Node) bool {
	return slices.ContainsFunc(p.states, func(other *state) bool { return other != s && other.pub.takes(n) })
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

// factsOf joins nodes and reports into the facts of one publication.
func (p *Publisher) factsOf(s *state, snap *Snapshot, prev Previous, now time.Time) (facts []topology.Facts, nodes map[string]*Node, wake time.Time) {
	facts, nodes = Gather(s.pub, snap)
	known := make(map[string]bool, len(facts))
	for i := range facts {
		known[facts[i].SlurmName] = true
	}
	elsewhere := s.pub.unselected(snap)
	still := make(map[string]time.Time)
	for _, name := range prev.nodes() {
		n := elsewhere[name]
		if known[name] || n != nil && p.takenByAnother(s, n) {
			continue
		}
		if n != nil {
			nodes[name] = n // its annotation goes after it
		}
		since, ok := s.gone[name]
		if !ok {
			since = now
		}
		until := since.Add(s.pub.GoneAfter.Duration)
		still[name] = since
		if now.Before(until) {
			facts = append(facts, topology.Facts{Name: name, SlurmName: name, Gone: true})
			if wake.IsZero() || until.Before(wake) {
				wake = until
			}
		}
	}
	for name := range s.waiting {
		if n := elsewhere[name]; n != nil && !p.takenByAnother(s, n) {
			nodes[name] = n
		}
	}
	s.gone = still
	return facts, nodes, wake
}
