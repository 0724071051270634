package nodeagent

import (
	"cmp"
	"context"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
)

// confirm notes that the last good report holds now.
func (a *Agent) confirm() {
	a.metrics.up.Set(1)
	a.metrics.confirmed.SetToCurrentTime()
	a.metrics.stale.Set(0)
	notify(a.confirmed)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.facts.stale != "" {
		a.facts.stale = ""
		a.compose()
	}
}

// keepFresh marks the report stale when no probe has confirmed it for long.
func (a *Agent) keepFresh(ctx context.Context) {
	timer := time.NewTimer(a.config.Stale)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.confirmed:
			timer.Reset(a.config.Stale)
		case <-timer.C:
			a.markStale()
		}
	}
}

// markStale has the report say that its facts may no longer be so. What it says
// stays the same until a probe confirms them, and so does the report.
func (a *Agent) markStale() {
	a.metrics.stale.Set(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	why := map[string]string{probe.EndExit: "ends", probe.EndGarbage: "says nothing of use", probe.EndStart: "does not start"}[a.lastEnd]
	a.facts.stale = "no facts since: the probe " + cmp.Or(why, "hangs") + "; these are the last good ones, see the agent's log"
	a.log.Error("facts are stale: no probe has confirmed them", "for", a.config.Stale)
	a.compose()
	notify(a.storeChanged) // which may know the facts of before
}
