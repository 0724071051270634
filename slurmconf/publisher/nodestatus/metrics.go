package nodestatus

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// Metrics are the series about nodes.
type Metrics struct {
	// Places serves quoin_node_info.
	Places  *Places
	members *prometheus.GaugeVec
	fabrics *prometheus.GaugeVec
	domain  *prometheus.GaugeVec
}

// NewMetrics registers the series with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_publisher_" + name, Help: help}, labels)
	}
	m := &Metrics{
		Places:  newPlaces(),
		members: gauge("imex_nodes", "Nodes by the verdict on their membership in the IMEX domain.", "reason"),
		fabrics: gauge("fabric_faults", "1 for each node whose NVLink fabric is not as it should be.", "node", "reason"),
		domain:  gauge("imex_domain_info", "1 for the ComputeDomain that nodes join, with what is wrong with it.", "namespace", "name", "uid", "problem"),
	}
	reg.MustRegister(m.Places, m.members, m.fabrics, m.domain)
	return m
}

// Clear forgets all nodes, because another publisher leads.
func (m *Metrics) Clear() {
	m.Places.Clear()
	m.fabrics.Reset()
}

// setFabrics shows the nodes whose fabric somebody has to look at. fabrics are beside the nodes.
func (m *Metrics) setFabrics(nodes []inputs.Node, fabrics []topology.FabricVerdict) {
	m.fabrics.Reset()
	for i := range fabrics {
		if v := &fabrics[i]; v.Asks() {
			m.fabrics.WithLabelValues(labelValue(nodes[i].Name), v.Reason).Set(1)
		}
	}
}

// setMembership counts verdicts.
func (m *Metrics) setMembership(d *imex.Domain, verdicts map[string]imex.Verdict) {
	counts := make(map[string]int)
	for _, v := range verdicts {
		counts[v.Reason]++
	}
	m.members.Reset()
	for reason, n := range counts {
		m.members.WithLabelValues(reason).Set(float64(n))
	}
	m.domain.Reset()
	if d.UID != "" || d.Problem.Reason != "" { // otherwise nodes join none
		m.domain.WithLabelValues(d.Namespace, d.Name, d.UID, cmp.Or(d.Problem.Reason, d.Note.Reason)).Set(1)
	}
}
