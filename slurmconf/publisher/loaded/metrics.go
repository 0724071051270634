package loaded

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the series about how far files and nodes have come.
type Metrics struct{ pending, never *prometheus.GaugeVec }

// NewMetrics registers the series with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_publisher_nodes_pending",
			Help: "Nodes that Slurm does not have in their planned place yet, by the first stage that differs: published, loaded, registered. Absent while Slurm cannot be asked."}, []string{"publication", "stage"}),
		never: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_publisher_file_never_loaded",
			Help: "1 if Slurm has not loaded the published files loadTimeout after they were written. Absent while Slurm cannot be asked."}, []string{"publication"}),
	}
	reg.MustRegister(m.pending, m.never)
	return m
}

// forget removes the series of a publication whose Slurm cannot be asked.
func (m *Metrics) forget(publication string) {
	m.pending.DeletePartialMatch(prometheus.Labels{"publication": publication})
	m.never.DeleteLabelValues(publication)
}

// set counts the nodes of a publication by stage.
func (m *Metrics) set(publication string, pending []Node, never bool) {
	counts := map[Stage]int{}
	for _, n := range pending {
		counts[n.Stage]++
	}
	for _, stage := range Stages {
		m.pending.WithLabelValues(publication, string(stage)).Set(float64(counts[stage]))
	}
	m.never.WithLabelValues(publication).Set(map[bool]float64{true: 1}[never])
}
