package jobs

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
)

// agentSeries are what the registry has done and found.
type agentSeries struct {
	sweepErrors, repairs prometheus.Counter
	released, samples    *prometheus.CounterVec
	files, records       *prometheus.GaugeVec
	summaries            prometheus.Gauge
}

func newAgentSeries(f promauto.Factory) agentSeries {
	s := agentSeries{
		sweepErrors: f.NewCounter(prometheus.CounterOpts{Name: "quoin_agent_sweep_errors_total", Help: "Comparisons that could not release or repair something."}),
		repairs:     f.NewCounter(prometheus.CounterOpts{Name: "quoin_agent_mapping_repairs_total", Help: "Lines that the agent added to the job mapping or moved."}),
		released:    f.NewCounterVec(prometheus.CounterOpts{Name: "quoin_agent_sweep_released_total", Help: "Lines that the agent removed from the job mapping, by why."}, []string{"reason"}),
		samples:     f.NewCounterVec(prometheus.CounterOpts{Name: "quoin_agent_samples_total", Help: "Samples of held devices: ok or missing."}, []string{"result"}),
		files:       f.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_agent_mapping_files", Help: "Files of the job mapping. held: with lines of known jobs. empty: without a line. foreign: with a line of an unknown job or without a job id."}, []string{"state"}),
		records:     f.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_agent_job_records", Help: "Records of jobs: alive if a step is seen, unproven if none is, or unreadable."}, []string{"state"}),
		summaries:   f.NewGauge(prometheus.GaugeOpts{Name: "quoin_agent_job_summaries", Help: "Summaries of ended jobs."}),
	}
	for _, reason := range []string{liveness.Boot, liveness.Ended, liveness.Overdue, liveness.Orphan} {
		s.released.WithLabelValues(reason)
	}
	s.countSamples(0, 0)
	s.setRecords(0, 0, 0)
	return s
}

func (s *agentSeries) countSamples(ok, missing int) {
	s.samples.WithLabelValues("ok").Add(float64(ok))
	s.samples.WithLabelValues("missing").Add(float64(missing))
}

func (s *agentSeries) setFiles(p *plan) {
	s.files.WithLabelValues("held").Set(float64(p.Held))
	s.files.WithLabelValues("empty").Set(float64(p.Empty))
	s.files.WithLabelValues("foreign").Set(float64(p.Foreign))
}

func (s *agentSeries) setRecords(alive, unproven, unreadable int) {
	s.records.WithLabelValues("alive").Set(float64(alive))
	s.records.WithLabelValues("unproven").Set(float64(unproven))
	s.records.WithLabelValues("unreadable").Set(float64(unreadable))
}

// series are the registry's series.
type series struct {
	*prometheus.Registry
	hook  hookSeries
	agent agentSeries
	held  *heldSeries
}

func newSeries() series {
	reg := prometheus.NewRegistry()
	s := series{reg, newHookSeries(promauto.With(reg)), newAgentSeries(promauto.With(reg)), &heldSeries{}}
	s.held.last.Store(&snapshot{})
	reg.MustRegister(s.held)
	return s
}

// heldSeries are the series of jobs and devices, from the last snapshot.
type heldSeries struct {
	last atomic.Pointer[snapshot]
}

// Describe implements prometheus.Collector.
func (s *heldSeries) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []description{seriesJobInfo, seriesInfo, seriesGPUs, seriesHeld, seriesIdle, seriesStretch, seriesUnowned, seriesIMEX} {
		ch <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (s *heldSeries) Collect(ch chan<- prometheus.Metric) {
	last := s.last.Load()
	for _, of := range last.jobs {
		for i := range of {
			ch <- of[i].metric
		}
	}
	for i := range last.devices {
		d := &last.devices[i]
		seriesInfo.send(ch, 1, append(d.labels[:], d.info[:]...)...)
		seriesHeld.send(ch, d.held, d.labels[:]...)
		seriesIdle.send(ch, d.idle, d.labels[:]...)
		seriesStretch.send(ch, d.stretch, d.labels[:]...)
		if d.unowned != nil {
			seriesUnowned.send(ch, float64(*d.unowned), d.labels[:]...)
		}
	}
	seriesGPUs.send(ch, float64(last.allocated), "allocated")
	seriesGPUs.send(ch, float64(last.free), "idle")
	seriesGPUs.send(ch, float64(last.lost), "lost")
	if last.imex {
		seriesIMEX.send(ch, 1, last.channelMajor, last.imexState)
	}
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
	seriesJobInfo = describe(gauge, "quoin_gpu_job_info", "1 for each job and device that it holds, until the job ends.", jobLabels...)
	seriesInfo    = describe(gauge, "quoin_gpu_info", "1 for each GPU or MIG instance.", "UUID", "gpu", "GPU_I_ID", "modelName", "clique", "node")
	seriesGPUs    = describe(gauge, "quoin_gpus", "Devices: allocated if a job holds them, lost if NVML no longer shows them, else idle.", "state")
	seriesHeld    = describe(counter, "quoin_gpu_held_seconds_total", "Seconds, by samples, in which at least one job held the device, since the agent began.", "UUID", "gpu", "GPU_I_ID")
	seriesIdle    = describe(counter, "quoin_gpu_idle_held_seconds_total", "Seconds, by samples, in which jobs held the device and it was idle for all of them, since the agent began.", "UUID", "gpu", "GPU_I_ID")
	seriesStretch = describe(gauge, "quoin_gpu_idle_held_stretch_seconds", "For how long the held device has had no process and no utilisation.", "UUID", "gpu", "GPU_I_ID")
	seriesUnowned = describe(gauge, "quoin_gpu_unowned_memory_bytes", "Memory of programs on a device that no job and no Pod holds, looked at once a minute.", "UUID", "gpu", "GPU_I_ID")
	seriesIMEX    = describe(gauge, "quoin_agent_imex_info", "1 if the node has IMEX, with the major number of its channels and the state of its daemon.", "channel_major", "state")
)
