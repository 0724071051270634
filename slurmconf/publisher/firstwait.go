package publisher

import (
	"context"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/first"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// firstWait lets the first publication wait until the site is known.
type firstWait struct {
	outlets
	pub *publication.Cluster
	first.Publication
}

// Reconcile ends the pass while the first publication waits.
func (f *firstWait) Reconcile(_ context.Context, p *pass) (r result, err error) {
	if !f.SettlesBase(f.pub, p.in.prev.Topology, p.made.Plan, p.now) {
		return r, nil
	}
	why, until := f.Waits(f.pub, p.in.Facts, p.made.Plan, p.now)
	if why == "" {
		return r, nil
	}
	f.log.Info("first publication waits", "publication", f.pub.Name, "for", why, "upTo", until.Sub(p.now).Round(time.Second))
	return result{next: until, done: true}, nil
}
