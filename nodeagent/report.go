package nodeagent

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/topology"
)

// reporter makes the report of the facts, and says when it has changed.
type reporter struct {
	node string
	// asks says that somebody is asked for DCGM's ids.
	asks bool
	// subscribers get each new report.
	subscribers []chan *topology.Node
	metrics     *Metrics
	log         *slog.Logger

	mu       sync.Mutex
	facts    facts
	line     []byte         // the report that is made of the facts
	reported *topology.Node // the same
	problem  error          // why there is none yet
	lastEnd  string         // why the last probe ended
	recalled bool           // the stored report has been read

	wake wakes
}

// wakes are signalled when there is something to do.
type wakes struct {
	store, files chan struct{} // the report has changed
	gpus         chan struct{} // other GPUs are reported
	fresh        chan struct{} // a probe has confirmed the report
}

func newWakes() wakes {
	signal := func() chan struct{} { return make(chan struct{}, 1) }
	return wakes{store: signal(), files: signal(), gpus: signal(), fresh: signal()}
}

// Ready returns nil once there is a report, or a named reason for having none.
func (r *reporter) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.line == nil && r.problem == nil {
		return errors.New("the probe has not reported yet")
	}
	return nil
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

// compose makes the report of the facts. The caller holds r.mu. The first report
// waits for an answer about DCGM's ids, good or bad: without that, each start of the
// agent would drop the ids for a moment.
func (r *reporter) compose() {
	n := r.facts.report()
	if n == nil || r.asks && !r.facts.idsAsked && r.facts.stale == "" {
		return
	}
	line, err := topology.EncodeReport(n)
	if err != nil {
		r.log.Error("report not made, the last good report stays", "err", err)
		return
	}
	if bytes.Equal(r.line, line) {
		return
	}
	r.line, r.reported = line, n
	r.metrics.observe(n)
	for _, s := range r.subscribers {
		replace(s, n)
	}
	r.metrics.stored.Set(0)
	r.log.Info("facts changed", "gpus", len(n.GPUs), "problems", len(n.Problems))
	again.Notify(r.wake.store)
	again.Notify(r.wake.files)
}

// report returns the last good report, nil before the first.
func (r *reporter) report() ([]byte, *topology.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.line, r.reported
}

// hear takes one event of the probe.
func (r *reporter) hear(e probe.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Kind {
	case probe.Reported:
		before := r.facts.probe
		r.problem = nil
		r.facts.takeProbe(e.Report)
		if before == nil || !sameGPUs(before, e.Report) {
			again.Notify(r.wake.gpus)
		}
		r.confirm()
	case probe.Unchanged:
		r.log.Debug("facts unchanged")
		r.facts.domain.again()
		r.confirm()
	case probe.Refused:
		r.metrics.heard.SetToCurrentTime()
		r.metrics.garbage.Inc()
		r.facts.domain.breakRun()
	case probe.Silent:
		r.metrics.up.Set(0)
		r.facts.domain.breakRun()
	case probe.Ended:
		r.restarts(e)
	}
}

// restarts notes that the probe has ended. The caller holds r.mu.
func (r *reporter) restarts(e probe.Event) {
	r.metrics.restarts.WithLabelValues(e.Reason).Inc()
	r.problem, r.lastEnd = e.Err, e.Reason
	message := "probe ended, the last good report stays"
	if r.line == nil {
		message = "probe ended, no report yet"
	}
	r.log.Warn(message, "reason", e.Reason, "restartAfter", e.Pause, "err", e.Err)
}

// confirm makes the report of facts that hold now. The caller holds r.mu.
func (r *reporter) confirm() {
	r.metrics.heard.SetToCurrentTime()
	r.metrics.up.Set(1)
	r.metrics.confirmed.SetToCurrentTime()
	r.metrics.stale.Set(0)
	r.facts.stale = ""
	r.compose()
	again.Notify(r.wake.fresh)
}

// markStale adds the problem FactsStale to the report. The text of the problem stays
// the same until a probe confirms the facts, so that the report stays the same too.
func (r *reporter) markStale(after time.Duration) {
	r.metrics.stale.Set(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	why := map[string]string{probe.EndExit: "ends", probe.EndGarbage: "prints nothing usable", probe.EndStart: "does not start"}[r.lastEnd]
	r.facts.stale = "the facts are old: the probe " + cmp.Or(why, "hangs") + "; see the agent's log"
	r.log.Error("facts are stale: no probe has confirmed them", "within", after)
	r.compose()
	again.Notify(r.wake.store) // the store may have the facts of an earlier agent
}

// holds notes that the store holds this report, unless a newer one has come.
func (r *reporter) holds(report []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes.Equal(r.line, report) {
		r.metrics.stored.Set(1)
	}
}

// recall takes the report that an earlier agent stored, once.
func (r *reporter) recall(stored []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recalled {
		return
	}
	r.recalled = true
	if stored == nil {
		return
	}
	n, err := topology.ParseReport("stored report", stored)
	if err != nil || n.Name != r.node {
		r.log.Debug("stored report not used", "err", err)
		return
	}
	r.facts.recall(n)
	r.compose()
}

// learn takes an answer about ids into the report; nil is no answer. The error names
// the GPUs without an id.
func (r *reporter) learn(ids map[string]int, otherwise string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ids != nil {
		r.facts.takeIDs(ids)
	}
	r.facts.idsAsked, r.facts.idsProblem = true, otherwise
	if r.facts.stored != nil {
		r.facts.recall(r.facts.stored)
	}
	r.compose()
	if missing := r.facts.withoutID(); len(missing) > 0 {
		return fmt.Errorf("%s: %s", strings.Join(missing, ", "), otherwise)
	}
	return nil
}

// gpus returns the UUIDs of the GPUs that a probe has reported.
func (r *reporter) gpus() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.facts.probe == nil {
		return nil
	}
	var uuids []string
	for _, g := range r.facts.probe.GPUs {
		uuids = append(uuids, g.UUID)
	}
	return uuids
}

// wantsStored says whether the first report still waits for DCGM's ids and for
// what the store holds.
func (r *reporter) wantsStored() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.facts.idsAsked && !r.recalled
}

// storable says whether there is something to store, or to mark as stale.
func (r *reporter) storable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.line != nil || r.facts.stale != ""
}

// seen returns the report if a probe of this agent has seen its facts. Jobs must
// not go by what an agent before this one stored.
func (r *reporter) seen() *topology.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.facts.probe == nil {
		return nil
	}
	return r.reported
}

func sameGPUs(a, b *topology.Node) bool {
	return slices.EqualFunc(a.GPUs, b.GPUs, func(x, y topology.GPU) bool { return x.UUID == y.UUID })
}
