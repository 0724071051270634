package publisher

import (
	"context"
	"maps"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// spacedUntil returns until when the change waits, because every publication makes
// slurmctld reconfigure. It returns the zero time if no file changes, if the change does
// more than add and remove nodes of known units, or if somebody approved it.
func (s *stored) spacedUntil(pub *publication.Cluster, made *Rendered, now time.Time) (until time.Time, err error) {
	current := &s.doc.Current
	if current.Number == 0 || current.OfFiles() == published.Digest(made.Files) || s.asks(published.AnnotationApprove) == made.Digest {
		return time.Time{}, nil
	}
	written, err := s.set.Written()
	until = written.Add(pub.PublishEvery.Duration)
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

// space leaves the files as they are for now. Nodes that join are annotated already,
// because the files have their units. Nodes that leave keep their annotations.
func space(ctx context.Context, l *loop, s *stored, g *gathered, made *Rendered, now time.Time) error {
	l.metrics.status.Places.Set(l.pub.Name, nodestatus.PlacesOf(s.prev.Topology.Places(), g.Facts, g.Nodes))
	specs := s.prev.specs(l.pub)
	maps.Copy(specs, made.Specs)
	written, err := s.set.Written()
	if err != nil {
		return err
	}
	return l.annotate(ctx, specs, g.Nodes, s.doc.Ages(written), now)
}
