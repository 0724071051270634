package jobs

import (
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// countCalls counts the hook's calls since the last time.
func (r *Registry) countCalls(now moment) {
	if now.up-r.schedule.calls < time.Second {
		return // a hook that has opened the log before may not have written yet
	}
	r.schedule.calls = now.up
	calls, err := rundir.Dir(r.config.RunDir).TakeCalls()
	r.log.note("hook calls", err)
	r.series.countCalls(calls)
}

// countCalls counts calls of the hook.
func (s *series) countCalls(calls []rundir.Call) {
	for _, c := range calls {
		result := "ok"
		if c.Error != "" {
			result = "error"
			s.hookErrors.WithLabelValues(c.Hook, knownOr(callReasons, c.Error)).Inc()
		}
		if c.Gate != "" {
			s.gatePassed.WithLabelValues(knownOr(gateResults, c.Gate)).Inc()
			s.gateTook.Observe(time.Duration(c.GateNs).Seconds())
		}
		s.hookRuns.WithLabelValues(c.Hook, result).Inc()
		s.hookTook.WithLabelValues(c.Hook).Observe(time.Duration(c.Ns).Seconds())
	}
}

// knownOr returns a word of a hook, or what stands for one of a newer hook.
func knownOr(words []string, word string) string {
	if slices.Contains(words, word) {
		return word
	}
	return otherReason
}
