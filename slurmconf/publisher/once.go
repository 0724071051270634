package publisher

import (
	"context"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// Once makes one pass over a publication at once, for the demo. It does not settle, guard
// or annotate, and nodes that are gone leave now. A refused result is returned and not
// written.
func Once(ctx context.Context, store Store, p *publication.Cluster) (*Rendered, []topology.Facts, error) {
	snap, err := store.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	was, err := store.Load(ctx, p.Place())
	if err != nil {
		return nil, nil, err
	}
	prev, err := readPrevious(was)
	if err == nil {
		err = prev.resume(p)
	}
	if err != nil {
		return nil, nil, err
	}
	g := p.Rules.Gather(snap)
	made, err := Make(p, g, prev)
	if err != nil || made.Refused != "" {
		return made, g.Facts, err
	}
	next := was.Clone()
	if !update(next, made, time.Now()) {
		return made, g.Facts, nil
	}
	return made, g.Facts, store.Save(ctx, p.Place(), next)
}
