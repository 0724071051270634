package nodeagent

import (
	"context"
	"slices"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/topology"
)

// follow takes what is heard of the probe until ctx ends.
func (a *Agent) follow(ctx context.Context, events <-chan probe.Event) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			a.hear(e)
		}
	}
}

// hear takes one event of the probe.
func (a *Agent) hear(e probe.Event) {
	switch e.Kind {
	case probe.Reported:
		a.metrics.heard.SetToCurrentTime()
		a.take(e.Report)
		a.confirm()
	case probe.Unchanged:
		a.metrics.heard.SetToCurrentTime()
		a.again()
		a.confirm()
	case probe.Refused:
		a.metrics.heard.SetToCurrentTime()
		a.metrics.garbage.Inc()
		a.miss()
	case probe.Silent:
		a.metrics.up.Set(0)
		a.miss()
	case probe.Ended:
		a.restarts(e)
	}
}

// restarts notes that the probe has ended.
func (a *Agent) restarts(e probe.Event) {
	a.metrics.restarts.WithLabelValues(e.Reason).Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problem, a.lastEnd = e.Err, e.Reason
	message := "probe ended, the last good report stays"
	if a.line == nil {
		message = "probe ended, no report yet"
	}
	a.log.Warn(message, "reason", e.Reason, "restartAfter", e.Pause, "err", e.Err)
}

// take keeps a report of the probe as the last good one.
func (a *Agent) take(n *topology.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problem = nil
	before := a.facts.probe
	a.facts.takeProbe(n)
	if before == nil || !sameGPUs(before, n) {
		notify(a.gpusChanged)
	}
	a.compose()
}

// again takes a reading of the machine that found the last report once more.
func (a *Agent) again() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log.Debug("facts unchanged")
	if a.facts.domain.again() {
		a.compose()
	}
}

// miss notes that a reading was lost.
func (a *Agent) miss() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.facts.domain.breakRun()
}

func sameGPUs(a, b *topology.Node) bool {
	return slices.EqualFunc(a.GPUs, b.GPUs, func(x, y topology.GPU) bool { return x.UUID == y.UUID })
}
