package publisher

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// Metrics are the publisher's series.
type Metrics struct {
	leader    prometheus.Gauge
	passes    *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	held      *prometheus.GaugeVec
	nodes     *prometheus.GaugeVec
	problems  *prometheus.GaugeVec
	status    *nodestatus.Metrics
	loaded    *loaded.Metrics
	occupancy *occupancy.Series
}

// NewMetrics registers the publisher's series with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_publisher_" + name, Help: help}, labels)
	}
	m := &Metrics{
		leader: prometheus.NewGauge(prometheus.GaugeOpts{Name: "quoin_publisher_leader", Help: "1 while this process leads."}),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quoin_publisher_passes_total", Help: "Passes: published, unchanged, held or error."}, []string{"publication", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "quoin_publisher_pass_duration_seconds", Help: "Time of one pass.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30}}, []string{"publication"}),
		held:      gauge("held", "1 while a change is held for the reason.", "publication", "reason"),
		nodes:     gauge("nodes", "Nodes of a publication by the reason of their placement.", "publication", "reason"),
		problems:  gauge("problems", "Problems by reason.", "publication", "reason"),
		status:    nodestatus.NewMetrics(reg),
		loaded:    loaded.NewMetrics(reg),
		occupancy: occupancy.NewSeries(reg),
	}
	reg.MustRegister(m.leader, m.passes, m.duration, m.held, m.nodes, m.problems)
	return m
}

// set replaces a publication's counts by reason.
func set(vec *prometheus.GaugeVec, publication string, counts map[string]int) {
	vec.DeletePartialMatch(prometheus.Labels{"publication": publication})
	for word, n := range counts {
		vec.WithLabelValues(publication, word).Set(float64(n))
	}
}

// judgeJobs lets jobs be judged, and free segments be counted, by the places of the current revision. judged has how many
// GPUs nodes have.
func (l *loop) judgeJobs(doc *plandoc.Document, judged []topology.Facts) {
	if doc.Current.Number == 0 {
		return
	}
	gpus, plan := make(map[string]int, len(judged)), &doc.Current.Plan
	for i := range judged {
		gpus[judged[i].Name] = judged[i].Devices()
	}
	l.jobs.Set(l.pub.Name, plan.Topologies)
	l.metrics.occupancy.Set(l.pub.Name, l.pub.Rules.PodNamespaces(), plan.Topologies, plan.Nodes, gpus)
}

// observe counts what was made, and logs problems when they change.
func (l *loop) observe(ctx context.Context, made *Rendered, snap *inputs.Snapshot) {
	if made.Plan == nil {
		return
	}
	nodes, problems := map[string]int{}, map[string]int{}
	for _, pl := range made.Plan.Nodes {
		nodes[pl.Reason]++
	}
	all := slices.Concat(made.FilePlan.Problems, snap.Problems, l.watch.Problems())
	for _, pr := range all {
		problems[pr.Reason]++
	}
	set(l.metrics.nodes, l.pub.Name, nodes)
	set(l.metrics.problems, l.pub.Name, problems)
	l.problems.Note(ctx, l.log, l.pub.Name, all)
}
