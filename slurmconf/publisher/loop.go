package publisher

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// loop keeps one publication up to date. Each of its features has its own memory between
// passes. All of it can be lost, because the store holds what counts.
type loop struct {
	outlets
	schedule
	pub *publication.Cluster
	// others are the other publications.
	others []*publication.Cluster
	// found is what this pass finds of the nodes.
	found findings
	// last is what was written last, should somebody delete it.
	last *published.Set

	nodes       nodeHistory
	units       unitsInUse
	moves       moves
	first       firstPublication
	held        held
	annotations annotator
	problems    problemLog
}

// outlets are what passes read from and write to.
type outlets struct {
	store    Store
	recorder Recorder // or nil
	log      *slog.Logger
	metrics  *Metrics
}

// record records an event.
func (o *outlets) record(p *publication.Cluster, warning bool, reason, message string) {
	if o.recorder != nil {
		o.recorder.Record(p.Place(), warning, reason, message)
	}
}

// newLoop returns the loop of one of all publications.
func newLoop(o outlets, all []*publication.Cluster, at int, now time.Time) *loop {
	pub := all[at]
	l := &loop{outlets: o, pub: pub, others: slices.Concat(all[:at], all[at+1:])}
	l.found.pub, l.first.started = pub, now
	l.annotations = annotator{outlets: o, pub: pub, before: all[:at], others: l.others, tried: map[string]attempt{}}
	return l
}

// schedule says when the next pass over a publication is made.
type schedule struct {
	again.Timer
	dirty    time.Time // when the first change since the last pass came
	touched  time.Time // when the last change came
	failures int
	failed   again.Once // the last error
}

// touch notes a change. The next pass is made when facts were quiet for Settle, and
// SettleMax after the first change at the latest.
func (s *schedule) touch(p *publication.Cluster, now time.Time) {
	s.touched = now
	if s.dirty.IsZero() {
		s.dirty = now
	}
	due := now.Add(p.Settle.Duration)
	if latest := s.dirty.Add(p.SettleMax.Duration); due.After(latest) {
		due = latest
	}
	if s.failures == 0 || due.After(s.Next()) {
		s.Move(due)
	}
}

// firstPassPause and lastPassPause are between the tries of a pass that fails.
const (
	firstPassPause = 5 * time.Second
	lastPassPause  = time.Minute
)

// pass reconciles. An error is logged once, and the published files stay as they are.
func (l *loop) pass(ctx context.Context) {
	l.dirty = time.Time{}
	began := time.Now()
	err := l.reconcile(ctx)
	l.metrics.duration.WithLabelValues(l.pub.Name).Observe(time.Since(began).Seconds())
	if err == nil || ctx.Err() != nil {
		l.failures = 0
		l.failed.Forget()
		return
	}
	l.failures++
	l.Move(time.Now().Add(again.Pause(l.failures, firstPassPause, lastPassPause)))
	l.metrics.passes.WithLabelValues(l.pub.Name, "error").Inc()
	if l.failed.IsNew(err.Error()) {
		l.log.Error("pass failed, the published files stay", "publication", l.pub.Name, "err", err)
	}
}
