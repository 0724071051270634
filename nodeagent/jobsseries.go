package nodeagent

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

func itoa(n int) string { return strconv.Itoa(n) }

// jobCounts are what the registry has done so far.
type jobCounts struct {
	sweeps, sweepErrors, repairs float64
	released                     map[string]float64 // by reason
	held, empty, foreign         int                // files of the mapping
}

func newJobCounts() jobCounts {
	return jobCounts{released: map[string]float64{releasedBoot: 0, releasedEnded: 0, releasedOverdue: 0, releasedOrphan: 0}}
}

func (c *jobCounts) clone() jobCounts {
	out := *c
	out.released = maps.Clone(c.released)
	return out
}

// files takes how many files there are of which kind.
func (c *jobCounts) files(p *sweepPlan) { c.held, c.empty, c.foreign = p.held, p.empty, p.foreign }

// jobSeries are the registry's series.
type jobSeries struct {
	hookRuns, hookErrors *prometheus.CounterVec
	hookTook             *prometheus.HistogramVec
	gatePassed           *prometheus.CounterVec
	gateTook             prometheus.Histogram

	mu   sync.Mutex
	last *jobSnapshot
	up   func() time.Duration
}

// callReasons are the words by which a hook says what went wrong first.
var callReasons = []string{rundir.CallLock, rundir.CallInventory, rundir.CallMapping, rundir.CallRecord, rundir.CallJobInfo, rundir.CallConfig,
	rundir.CallEnvironment, rundir.CallSummary, rundir.CallTimeout, rundir.CallSignal, rundir.CallPanic, otherReason}

// gateResults are the words by which a hook says how a job came through the gate.
var gateResults = []string{rundir.GateReady, rundir.GateWaited, rundir.GateAlone, rundir.GateWarn, rundir.GateFail, rundir.GateHold, rundir.GateStale, rundir.GateSignal, rundir.GateFault, otherReason}

// otherReason stands for a word of a newer hook.
const otherReason = "other"

func newJobSeries() *jobSeries {
	s := &jobSeries{
		hookRuns:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quoin_hook_runs_total", Help: "Calls of the job hook, by result: error where anything went wrong."}, []string{"hook", "result"}),
		hookErrors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quoin_hook_errors_total", Help: "Calls of the job hook in which something went wrong, by what went wrong first."}, []string{"hook", "reason"}),
		hookTook: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "quoin_hook_duration_seconds", Help: "How long a call of the job hook held up the job or the node.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}}, []string{"hook"}),
		gatePassed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quoin_hook_gate_total", Help: "Jobs across nodes at the IMEX gate of their Prolog, by how they came through."}, []string{"result"}),
		gateTook: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "quoin_hook_gate_duration_seconds", Help: "How long the IMEX gate held up a job across nodes.",
			Buckets: []float64{.001, .01, .1, 1, 5, 10, 30, 60, 300}}),
		last: &jobSnapshot{counts: newJobCounts()},
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

// takeCalls counts the hook's calls since the last time.
func (j *Jobs) takeCalls(now moment) {
	if now.up-j.taken < time.Second {
		return // a hook that has opened the log before may not have written yet
	}
	j.taken = now.up
	calls, err := rundir.TakeCalls(j.config.RunDir)
	j.say("hook calls", err)
	for _, c := range calls {
		result := "ok"
		if c.Error != "" {
			result = "error"
			j.series.hookErrors.WithLabelValues(c.Hook, knownOr(callReasons, c.Error)).Inc()
		}
		if c.Gate != "" {
			j.series.gatePassed.WithLabelValues(knownOr(gateResults, c.Gate)).Inc()
			j.series.gateTook.Observe(time.Duration(c.GateNs).Seconds())
		}
		j.series.hookRuns.WithLabelValues(c.Hook, result).Inc()
		j.series.hookTook.WithLabelValues(c.Hook).Observe(time.Duration(c.Ns).Seconds())
	}
}

// knownOr returns a word of a hook, or what stands for one of a newer hook.
func knownOr(words []string, word string) string {
	if slices.Contains(words, word) {
		return word
	}
	return otherReason
}

func (s *jobSeries) set(snapshot *jobSnapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = snapshot
}

func (s *jobSeries) snapshot() *jobSnapshot {
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
	counts = prometheus.CounterValue
	gauges = prometheus.GaugeValue
)

var (
	seriesJobInfo = describe(gauges, "quoin_gpu_job_info", "1 for each device that a job holds on this node. The series ends with the job.", jobLabels...)
	seriesInfo    = describe(gauges, "quoin_gpu_info", "1 for each GPU or MIG instance, with its product, NVLink clique and node as labels.", "UUID", "gpu", "GPU_I_ID", "modelName", "clique", "node")
	seriesGPUs    = describe(gauges, "quoin_gpus", "GPUs, or MIG instances, by whether a job holds them.", "state")
	seriesHeld    = describe(counts, "quoin_gpu_held_seconds_total", "Seconds for which at least one job held the device.", "UUID", "gpu", "GPU_I_ID")
	seriesIdle    = describe(counts, "quoin_gpu_idle_held_seconds_total", "Seconds for which a job held the device and it had no process and no utilisation.", "UUID", "gpu", "GPU_I_ID")
	seriesStretch = describe(gauges, "quoin_gpu_idle_held_stretch_seconds", "For how long the device is held and has had no process and no utilisation up to now; 0 else.", "UUID", "gpu", "GPU_I_ID")

	seriesSweeps    = describe(counts, "quoin_agent_sweeps_total", "Comparisons of the job mapping with the jobs that live.")
	seriesReleased  = describe(counts, "quoin_agent_sweep_released_total", "Lines of jobs that the agent took out of the job mapping, by why the job was over.", "reason")
	seriesRepairs   = describe(counts, "quoin_agent_mapping_repairs_total", "Lines of living jobs that the agent added to the job mapping, or moved.")
	seriesSweepErrs = describe(counts, "quoin_agent_sweep_errors_total", "Comparisons after which something could not be released or repaired; it is tried again.")
	seriesFiles     = describe(gauges, "quoin_agent_mapping_files", "Files of the job mapping: with lines of jobs, without a line, and with lines that no job is known for, or that are no job's.", "state")
	seriesRecords   = describe(gauges, "quoin_agent_job_records", "Records of jobs: of such as are seen to live, of such as are not, and those that cannot be read.", "state")
	seriesSummaries = describe(gauges, "quoin_agent_job_summaries", "Summaries of jobs that have ended.")
	seriesSamples   = describe(counts, "quoin_agent_samples_total", "Samples of devices that jobs hold: taken, and missing.", "result")
	seriesIMEX      = describe(gauges, "quoin_agent_imex_info", "1 where the node has IMEX, with its channels' major number and its daemon's state.", "channel_major", "state")
)

var jobDescriptions = []description{seriesJobInfo, seriesInfo, seriesGPUs, seriesHeld, seriesIdle, seriesStretch, seriesSweeps, seriesReleased, seriesRepairs,
	seriesSweepErrs, seriesFiles, seriesRecords, seriesSummaries, seriesSamples, seriesIMEX}
