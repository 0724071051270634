package jobs

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// callReasons are the hook's words for what went wrong first in a call.
var callReasons = []string{rundir.CallLock, rundir.CallInventory, rundir.CallGresConf, rundir.CallMapping, rundir.CallRecord, rundir.CallConfig,
	rundir.CallEnvironment, rundir.CallSummary, rundir.CallTimeout, rundir.CallSignal, rundir.CallPanic, otherReason}

// gateResults are the hook's words for how a job came through the gate.
var gateResults = []string{rundir.GateReady, rundir.GateWaited, rundir.GateAlone, rundir.GateWarn, rundir.GateFail, rundir.GateHold, rundir.GateStale, rundir.GateUnknown, rundir.GateSignal, rundir.GateFault, otherReason}

// otherReason replaces a word of a newer hook.
const otherReason = "other"

// hookSeries count the hook's calls.
type hookSeries struct {
	errors     *prometheus.CounterVec
	took       *prometheus.HistogramVec
	gatePassed *prometheus.CounterVec
	gateTook   prometheus.Histogram
}

func newHookSeries(f promauto.Factory) hookSeries {
	s := hookSeries{
		errors: f.NewCounterVec(prometheus.CounterOpts{Name: "quoin_hook_errors_total", Help: "Failed calls of the hook, by what went wrong first."}, []string{"hook", "reason"}),
		took: f.NewHistogramVec(prometheus.HistogramOpts{Name: "quoin_hook_duration_seconds", Help: "How long a call of the hook delayed the job or the node.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}}, []string{"hook"}),
		gatePassed: f.NewCounterVec(prometheus.CounterOpts{Name: "quoin_hook_gate_total", Help: "Jobs across nodes at the IMEX gate, by result."}, []string{"result"}),
		gateTook: f.NewHistogram(prometheus.HistogramOpts{Name: "quoin_hook_gate_duration_seconds", Help: "How long the IMEX gate delayed a job across nodes.",
			Buckets: []float64{.001, .01, .1, 1, 5, 10, 30, 60, 300}}),
	}
	for _, hook := range []string{"prolog", "epilog"} {
		s.took.WithLabelValues(hook)
		for _, reason := range callReasons {
			s.errors.WithLabelValues(hook, reason)
		}
	}
	for _, result := range gateResults {
		s.gatePassed.WithLabelValues(result)
	}
	return s
}

// count counts calls of the hook.
func (s *hookSeries) count(calls []rundir.Call) {
	for _, c := range calls {
		if c.Error != "" {
			s.errors.WithLabelValues(c.Hook, knownOr(callReasons, c.Error)).Inc()
		}
		if c.Gate != "" {
			s.gatePassed.WithLabelValues(knownOr(gateResults, c.Gate)).Inc()
			s.gateTook.Observe(time.Duration(c.GateNs).Seconds())
		}
		s.took.WithLabelValues(c.Hook).Observe(time.Duration(c.Ns).Seconds())
	}
}

// knownOr returns a word of a hook, or what stands for one of a newer hook.
func knownOr(words []string, word string) string {
	if slices.Contains(words, word) {
		return word
	}
	return otherReason
}
