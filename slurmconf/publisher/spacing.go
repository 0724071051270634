package publisher

import (
	"context"
	"maps"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// spacing leaves time between two publications, because each makes slurmctld reconfigure.
type spacing struct {
	pub     *publication.Cluster
	metrics *Metrics
}

// Reconcile lets the change be written, or returns the places of all nodes while the files
// stay as they are. Nodes that join have the new places, because the files have their units.
// Nodes that leave keep theirs.
func (s *spacing) Reconcile(_ context.Context, p *pass) (r result, err error) {
	until, err := s.until(p.stored, p.made, p.now)
	if err != nil || until.IsZero() {
		return result{write: p.made}, err
	}
	s.metrics.status.Places.Set(s.pub.Name, nodestatus.PlacesOf(p.in.prev.Plan.Places(), p.in.Facts, p.in.Nodes))
	specs := p.in.prev.specs(s.pub)
	maps.Copy(specs, p.made.Specs)
	return result{specs: specs, next: until}, nil
}

// until returns until when the change waits. It returns the zero time if no file changes, if
// the change does more than add and remove nodes of known units, or if somebody approved it.
func (s *spacing) until(old *stored, made *Rendered, now time.Time) (until time.Time, err error) {
	current := &old.doc.Current
	if current.Number == 0 || current.OfFiles() == plandoc.Digest(made.Files) || old.asks(plandoc.AnnotationApprove) == made.Digest {
		return time.Time{}, nil
	}
	written, err := old.set.Written()
	until = written.Add(s.pub.PublishEvery.Duration)
	if err != nil || written.After(now) || !now.Before(until) { // in the future: the clock was ahead then
		return time.Time{}, nil //nolint:nilerr // files without a date are published again with one
	}
	plan, err := made.Document()
	if err != nil {
		return time.Time{}, err
	}
	if changes := plandoc.Compare(&current.Plan, &plan); !changes.OnlyMembers() {
		return time.Time{}, nil
	}
	return until, nil
}
