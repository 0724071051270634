package publisher

import (
	"context"
	"log/slog"
	"time"

	"github.com/quoin-hpc/quoin/imex"
)

// unplacedWait is how long claims must wait for a node before they are logged, because
// the scheduler needs a moment.
const unplacedWait = time.Minute

// unplacedGroup is a group of claims that are logged together.
type unplacedGroup struct{ namespace, owner, reason string }

// unplacedSince is since when a group waits, and whether that was logged.
type unplacedSince struct {
	since time.Time
	said  bool
}

// keepUnplaced logs once that claims wait for a node, and once that they no longer do. It
// counts the claims that were logged.
func (p *Publisher) keepUnplaced(ctx context.Context, all []imex.Unplaced, now time.Time) {
	c := &p.conditions
	was, counts := c.unplaced, map[unplacedGroup]int{}
	c.unplaced = make(map[unplacedGroup]unplacedSince, len(all))
	for i := range all {
		u := &all[i]
		group := unplacedGroup{u.Namespace, u.Owner, u.Reason}
		g, known := was[group]
		if !known {
			g.since = now
		}
		if until := g.since.Add(unplacedWait); now.Before(until) {
			c.wake(until)
		} else {
			if !g.said {
				p.sayUnplaced(ctx, u)
			}
			g.said = true
			counts[group] = u.Claims
		}
		c.unplaced[group] = g
	}
	for group, g := range was {
		if _, still := c.unplaced[group]; g.said && !still {
			p.log.Info("claims no longer wait for a node", "reason", group.reason, "namespace", group.namespace, "owner", group.owner)
		}
	}
	p.metrics.setUnplaced(counts)
}

func (p *Publisher) sayUnplaced(ctx context.Context, u *imex.Unplaced) {
	level := slog.LevelWarn
	if u.Reason == imex.ReasonClaimWaits { // there may be more pods than nodes
		level = slog.LevelInfo
	}
	p.log.Log(ctx, level, "claims wait for a node", "reason", u.Reason, "namespace", u.Namespace, "owner", u.Owner, "claims", u.Claims, "message", u.Message, "remedy", u.Remedy)
}
