package publisher

import (
	"maps"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// spacing leaves time between two publications, because each makes slurmctld reconfigure.
type spacing struct {
	pub     *publication.Cluster
	metrics *Metrics
}

// reconcile returns the places of all nodes while the files stay as they are, and until when
// they do. It returns none if the change waits no more. Nodes that join have the new
// places, because the files have their units. Nodes that leave keep theirs.
func (p *spacing) reconcile(s *stored, g *gathered, made *Rendered, now time.Time) (specs map[string]string, until time.Time, err error) {
	until, err = p.until(s, made, now)
	if err != nil || until.IsZero() {
		return nil, until, err
	}
	p.metrics.status.Places.Set(p.pub.Name, nodestatus.PlacesOf(s.prev.Topology.Places(), g.Facts, g.Nodes))
	specs = s.prev.specs(p.pub)
	maps.Copy(specs, made.Specs)
	return specs, until, nil
}

// until returns until when the change waits. It returns the zero time if no file changes, if
// the change does more than add and remove nodes of known units, or if somebody approved it.
func (p *spacing) until(s *stored, made *Rendered, now time.Time) (until time.Time, err error) {
	current := &s.doc.Current
	if current.Number == 0 || current.OfFiles() == published.Digest(made.Files) || s.asks(published.AnnotationApprove) == made.Digest {
		return time.Time{}, nil
	}
	written, err := s.set.Written()
	until = written.Add(p.pub.PublishEvery.Duration)
	if err != nil || written.After(now) || !now.Before(until) { // in the future: the clock was ahead then
		return time.Time{}, nil //nolint:nilerr // files without a date are published again with one
	}
	plan, err := made.document(&current.Plan)
	if err != nil {
		return time.Time{}, err
	}
	if changes := plandoc.Compare(&current.Plan, &plan); !changes.OnlyMembers() {
		return time.Time{}, nil
	}
	return until, nil
}
