package jobs

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/sweep"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// counts are what the registry has done so far.
type counts struct {
	sweeps, sweepErrors, repairs float64
	released                     map[string]float64 // by reason
	held, empty, foreign         int                // files of the mapping
}

func newCounts() counts {
	return counts{released: map[string]float64{liveness.Boot: 0, liveness.Ended: 0, liveness.Overdue: 0, liveness.Orphan: 0}}
}

func (c *counts) clone() counts {
	out := *c
	out.released = maps.Clone(c.released)
	return out
}

// files takes how many files there are of which kind.
func (c *counts) files(p *sweep.Plan) { c.held, c.empty, c.foreign = p.Held, p.Empty, p.Foreign }

// add counts what a sweep has done.
func (c *counts) add(d sweep.Done) {
	c.repairs += float64(d.Repairs)
	for reason, n := range d.Released {
		c.released[reason] += float64(n)
	}
}

// series are the registry's series.
type series struct {
	hookRuns, hookErrors *prometheus.CounterVec
	hookTook             *prometheus.HistogramVec
	gatePassed           *prometheus.CounterVec
	gateTook             prometheus.Histogram

	mu   sync.Mutex
	last *snapshot
	up   func() time.Duration
}

// callReasons are the hook's words for what went wrong first in a call.
var callReasons = []string{rundir.CallLock, rundir.CallInventory, rundir.CallMapping, rundir.CallRecord, rundir.CallJobInfo, rundir.CallConfig,
	rundir.CallEnvironment, rundir.CallSummary, rundir.CallTimeout, rundir.CallSignal, rundir.CallPanic, otherReason}

// gateResults are the hook's words for how a job came through the gate.
var gateResults = []string{rundir.GateReady, rundir.GateWaited, rundir.GateAlone, rundir.GateWarn, rundir.GateFail, rundir.GateHold, rundir.GateStale, rundir.GateSignal, rundir.GateFault, otherReason}

// otherReason replaces a word of a newer hook.
const otherReason = "other"

func newSeries() *series {
	s := &series{
		hookRuns:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quoin_hook_runs_total", Help: "Calls of the job hook by result: ok, or error if anything went wrong."}, []string{"hook", "result"}),
		hookErrors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quoin_hook_errors_total", Help: "Failed calls of the job hook, by what went wrong first."}, []string{"hook", "reason"}),
		hookTook: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "quoin_hook_duration_seconds", Help: "How long a call of the job hook delayed the job or the node.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}}, []string{"hook"}),
		gatePassed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quoin_hook_gate_total", Help: "Jobs across nodes at the IMEX gate of their Prolog, by result."}, []string{"result"}),
		gateTook: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "quoin_hook_gate_duration_seconds", Help: "How long the IMEX gate delayed a job across nodes.",
			Buckets: []float64{.001, .01, .1, 1, 5, 10, 30, 60, 300}}),
		last: &snapshot{counts: newCounts()},
		up:   func() time.Duration { return readClocks().up },
	}
	for _, hook := range []string{"prolog", "epilog"} {
		s.hookRuns.WithLabelValues(hook, "ok")
		s.hookRuns.WithLabelValues(hook, "error")
		s.hookTook.WithLabelValues(hook)
		for _, reason := range callReasons {
			s.hookErrors.WithLabelValues(hook, reason)
		}
	}
	for _, result := range gateResults {
		s.gatePassed.WithLabelValues(result)
	}
	return s
}

func (s *series) set(shown *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = shown
}

func (s *series) snapshot() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// description is a series with its labels.
type description struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func describe(kind prometheus.ValueType, name, help string, labels ...string) description {
	return description{prometheus.NewDesc(name, help, labels, nil), kind}
}

func (d description) metric(value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d.desc, d.kind, value, labels...)
}

func (d description) send(ch chan<- prometheus.Metric, value float64, labels ...string) {
	ch <- d.metric(value, labels...)
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

var (
	seriesJobInfo = describe(gauge, "quoin_gpu_job_info", "1 for each device that a job holds on this node. The series ends with the job.", jobLabels...)
	seriesInfo    = describe(gauge, "quoin_gpu_info", "1 for each GPU or MIG instance, with its product, NVLink clique and node as labels.", "UUID", "gpu", "GPU_I_ID", "modelName", "clique", "node")
	seriesGPUs    = describe(gauge, "quoin_gpus", "GPUs, or MIG instances, by state: allocated if a job holds them, else idle.", "state")
	seriesHeld    = describe(counter, "quoin_gpu_held_seconds_total", "Seconds for which at least one job held the device.", "UUID", "gpu", "GPU_I_ID")
	seriesIdle    = describe(counter, "quoin_gpu_idle_held_seconds_total", "Seconds for which a job held the device while the device had no process and no utilisation.", "UUID", "gpu", "GPU_I_ID")
	seriesStretch = describe(gauge, "quoin_gpu_idle_held_stretch_seconds", "For how long the held device has had no process and no utilisation. 0 if it is not held or not idle.", "UUID", "gpu", "GPU_I_ID")

	seriesSweeps    = describe(counter, "quoin_agent_sweeps_total", "Comparisons of the job mapping with the jobs that live.")
	seriesReleased  = describe(counter, "quoin_agent_sweep_released_total", "Lines that the agent removed from the job mapping, by why the job has ended.", "reason")
	seriesRepairs   = describe(counter, "quoin_agent_mapping_repairs_total", "Lines of living jobs that the agent added to the job mapping or moved.")
	seriesSweepErrs = describe(counter, "quoin_agent_sweep_errors_total", "Comparisons after which something could not be released or repaired. The agent tries again.")
	seriesFiles     = describe(gauge, "quoin_agent_mapping_files", "Files of the job mapping: held have lines of jobs, empty have none, foreign have lines of unknown jobs or that are no job id.", "state")
	seriesRecords   = describe(gauge, "quoin_agent_job_records", "Records of jobs: alive if a step is seen to live, unproven if none is seen, unreadable if the record cannot be read.", "state")
	seriesSummaries = describe(gauge, "quoin_agent_job_summaries", "Summaries of ended jobs.")
	seriesSamples   = describe(counter, "quoin_agent_samples_total", "Samples of devices that jobs hold, by result: ok or missing.", "result")
	seriesIMEX      = describe(gauge, "quoin_agent_imex_info", "1 if the node has IMEX, with the major number of its channels and the state of its daemon.", "channel_major", "state")
)

var jobDescriptions = []description{seriesJobInfo, seriesInfo, seriesGPUs, seriesHeld, seriesIdle, seriesStretch, seriesSweeps, seriesReleased, seriesRepairs,
	seriesSweepErrs, seriesFiles, seriesRecords, seriesSummaries, seriesSamples, seriesIMEX}
