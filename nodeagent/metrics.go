package nodeagent

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/topology"
)

// Metrics are the agent's series.
type Metrics struct {
	up        prometheus.Gauge
	restarts  *prometheus.CounterVec
	stored    prometheus.Gauge
	gpus      *prometheus.GaugeVec
	problems  *prometheus.GaugeVec
	stale     prometheus.Gauge
	fabric    *prometheus.GaugeVec
	dcgmReads *prometheus.CounterVec
}

// NewMetrics registers the agent's series with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "quoin_agent_" + name, Help: help})
	}
	m := &Metrics{
		up:       gauge("probe_up", "1 while the running probe has given a good report."),
		restarts: f.NewCounterVec(prometheus.CounterOpts{Name: "quoin_agent_probe_restarts_total", Help: "Ends of the probe by reason: exit, hang, garbage, or start."}, []string{"reason"}),
		stored:   gauge("report_stored", "1 while the store holds the last good report."),
		gpus:     f.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_agent_gpus", Help: "GPUs by fabric state and health."}, []string{"fabric", "health"}),
		problems: f.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_agent_problems", Help: "Problems of the last good report."}, []string{"reason"}),
		stale:    gauge("report_stale", "1 while no probe has confirmed the report for minutes."),
		fabric: f.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_agent_fabric_info", Help: "1 for each NVLink fabric that a GPU is in."},
			[]string{"cluster_uuid", "clique", "state", "status"}),
		dcgmReads: f.NewCounterVec(prometheus.CounterOpts{Name: "quoin_agent_dcgm_reads_total", Help: "Readings of DCGM's ids by source (hostengine, exporter) and result (ok, error)."}, []string{"source", "result"}),
	}
	for _, reason := range []string{probe.EndExit, probe.EndHang, probe.EndGarbage, probe.EndStart} {
		m.restarts.WithLabelValues(reason)
	}
	return m
}

// observe shows a report's GPUs, fabrics and problems.
func (m *Metrics) observe(n *topology.Node) {
	m.gpus.Reset()
	m.problems.Reset()
	m.fabric.Reset()
	for i := range n.GPUs {
		state, health := "unknown", ""
		if f := n.GPUs[i].Fabric; !f.IsZero() {
			state, health = string(f.State), string(f.Health)
			if f.Supported() {
				m.fabric.WithLabelValues(f.ClusterUUID.String(), fmt.Sprint(f.CliqueID), state, f.Status).Set(1)
			}
		}
		m.gpus.WithLabelValues(state, health).Inc()
	}
	for _, p := range n.Problems {
		m.problems.WithLabelValues(p.Reason).Inc()
	}
}
