package nodeagent

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/topology"
)

// publish makes the report of the facts, and hands it on if it has changed. The first report waits for an
// answer about DCGM's ids, good or bad: without that, each start of the agent would drop the ids for a moment.
func (a *Agent) publish() {
	n := a.facts.report()
	if n == nil || len(a.config.IDs) > 0 && !a.facts.idsAsked && a.facts.stale == "" {
		return
	}
	line, err := topology.EncodeReport(n)
	if err != nil {
		a.log.Error("report not made, the last good report stays", "err", err)
		return
	}
	if bytes.Equal(a.line, line) {
		return
	}
	a.line, a.reported = line, n
	a.ready.Store(true)
	a.metrics.observe(n)
	a.metrics.stored.Set(0)
	a.log.Info("facts changed", "gpus", len(n.GPUs), "problems", len(n.Problems))
	for _, s := range a.config.Subscribers {
		replace(s, n)
	}
	if a.recalled { // until then the store may know more
		replace(a.toStore, n)
	}
	if a.facts.probe != nil { // jobs must not go by what an agent before this one stored
		replace(a.toFiles, n)
	}
}

// replace sends the newest value. The channel has room for one, and nobody else
// sends.
func replace[T any](c chan T, value T) {
	select {
	case <-c:
	default:
	}
	c <- value
}

// send sends a value unless ctx ends.
func send[T any](ctx context.Context, c chan<- T, value T) {
	select {
	case c <- value:
	case <-ctx.Done():
	}
}

// onEvent takes one event of the probe. It reports whether the facts hold now.
func (a *Agent) onEvent(e probe.Event) (confirmed bool) {
	switch e.Kind {
	case probe.Reported:
		before := a.facts.probe
		a.facts.takeProbe(e.Report)
		if before == nil || !sameGPUs(before, e.Report) {
			replace(a.questions, a.facts.uuids())
		}
		a.confirmed()
		return true
	case probe.Unchanged:
		a.log.Debug("facts unchanged")
		a.facts.domain.repeat()
		a.confirmed()
		return true
	case probe.Refused:
		a.facts.domain.reset()
	case probe.Silent:
		a.metrics.up.Set(0)
		a.facts.domain.reset()
	case probe.Ended:
		a.noteEnd(e)
	}
	return false
}

// confirmed notes that the facts hold now.
func (a *Agent) confirmed() {
	a.metrics.up.Set(1)
	a.metrics.stale.Set(0)
	a.facts.stale = ""
}

// noteEnd notes that the probe has ended.
func (a *Agent) noteEnd(e probe.Event) {
	a.metrics.restarts.WithLabelValues(e.Reason).Inc()
	a.lastEnd = e.Reason
	a.ready.Store(true)
	message := "probe ended, the last good report stays"
	if a.line == nil {
		message = "probe ended, no report yet"
	}
	a.log.Warn(message, "reason", e.Reason, "restartAfter", e.Pause, "err", e.Err)
}

// onStale adds the problem FactsStale to the report. The text of the problem stays
// the same until a probe confirms the facts, so that the report stays the same too.
func (a *Agent) onStale() {
	a.metrics.stale.Set(1)
	why := map[string]string{probe.EndExit: "ends", probe.EndGarbage: "prints nothing usable", probe.EndStart: "does not start"}[a.lastEnd]
	a.facts.stale = "the facts are old: the probe " + cmp.Or(why, "hangs") + "; see the agent's log"
	a.log.Error("facts are stale: no probe has confirmed them", "within", a.config.Stale)
}

// onStored takes what the store holds. The first time that is the report of an earlier agent.
func (a *Agent) onStored(held []byte) {
	if !a.recalled {
		a.recall(held)
		a.publish()
		a.recalled = true
		close(a.known)
		if a.reported != nil {
			replace(a.toStore, a.reported)
		}
	}
	if a.line != nil && bytes.Equal(a.line, held) {
		a.metrics.stored.Set(1)
	}
}

// recall takes the report that an earlier agent stored.
func (a *Agent) recall(held []byte) {
	if held == nil {
		return
	}
	n, err := topology.ParseReport("stored report", held)
	if err != nil || n.Name != a.config.Node {
		a.log.Debug("stored report not used", "err", err)
		return
	}
	a.facts.takeStored(n)
}

func sameGPUs(a, b *topology.Node) bool {
	return slices.EqualFunc(a.GPUs, b.GPUs, func(x, y topology.GPU) bool { return x.UUID == y.UUID })
}
