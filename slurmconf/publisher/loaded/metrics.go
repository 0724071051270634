package loaded

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the series about how far nodes have come.
type Metrics struct{ behind *prometheus.GaugeVec }

// NewMetrics registers the series with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_publisher_nodes_behind",
		Help: "Nodes whose place has not come as far as Slurm, by the first stage that differs: published, loaded or registered. Absent while Slurm cannot be asked."}, []string{"publication", "stage"})}
	reg.MustRegister(m.behind)
	return m
}

// set counts the nodes of a publication by stage. nil: nobody knows.
func (m *Metrics) set(publication string, behind []Node) {
	if behind == nil {
		m.behind.DeletePartialMatch(prometheus.Labels{"publication": publication})
		return
	}
	counts := map[Stage]int{}
	for _, n := range behind {
		counts[n.Stage]++
	}
	for _, stage := range Stages {
		m.behind.WithLabelValues(publication, string(stage)).Set(float64(counts[stage]))
	}
}
