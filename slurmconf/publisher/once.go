package publisher

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// Once makes passes until none is due or ctx ends, for a site that is played: nothing waits, no change is too big, and nodes
// that are gone leave at once. It returns what was made. If that is refused, the published files stay.
func Once(ctx context.Context, store Store, pub *publication.Cluster) (*Rendered, error) {
	own := *pub
	own.SettleTime, own.RemoveAfter, own.LoadTimeout, own.Times = publication.Duration{}, publication.Duration{}, publication.Duration{}, publication.Times{}
	own.MaxChange = new(1.0)
	now := time.Now()
	out := outlets{store: store, log: slog.New(slog.DiscardHandler), metrics: NewMetrics(prometheus.NewRegistry()), jobs: occupancy.New(nil)}
	l := newLoop(out, []*publication.Cluster{&own}, 0, now)
	for {
		made, _, err := l.pass(ctx, now)
		if err != nil || !l.Take(now) {
			return made, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}
