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
	if !f.SettlesBase(f.pub, p.in.prev.Plan, p.made.Plan, p.now) {
		return r, nil
	}
	why, until := f.Waits(f.pub, p.in.Facts, p.made.Plan, p.now)
	if why == "" {
		return r, nil
	}
	f.log.Info("first publication waits", "publication", f.pub.Name, "for", why, "upTo", until.Sub(p.now).Round(time.Second))
	return result{next: until, done: true}, nil
}

// seeder lets slurmctld start before the first publication.
type seeder struct {
	outlets
	pub     *publication.Cluster
	archive *archive
}

// Reconcile publishes a seed if nothing else is published, and begins the pass again.
func (s *seeder) Reconcile(ctx context.Context, p *pass) (r result, err error) {
	if !s.seeds || p.stored.doc.Current.Number > 0 {
		return r, nil
	}
	set, err := first.Seed(s.pub, p.snap, p.stored.set)
	if err != nil || set == nil {
		return r, err
	}
	s.log.Info("published a seed, so that slurmctld can start before there is a plan", "publication", s.pub.Name)
	return result{next: p.now, done: true}, s.archive.saveFiles(ctx, set)
}

// seed publishes a seed at once, if nothing is published. The first pass tries again what
// fails here.
func (l *loop) seed(ctx context.Context) {
	if snap, err := l.store.Snapshot(ctx); err == nil && l.seeds {
		_, _ = l.run(ctx, &pass{now: time.Now(), snap: snap}, []step{l.archive, &seeder{l.outlets, l.pub, l.archive}})
	}
}
