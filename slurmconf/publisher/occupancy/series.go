package occupancy

import (
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
)

// maxJobs is how many jobs of a publication have series: those with the most nodes.
const maxJobs = 1000

var (
	labels     = []string{"publication", "topology", "job_id"}
	answered   = prometheus.NewDesc("quoin_publisher_slurm_answer_timestamp_seconds", "When Slurm last said which jobs run.", []string{"publication"}, nil)
	blocks     = prometheus.NewDesc("quoin_job_blocks", "Blocks that a running job of two nodes or more uses.", labels, nil)
	fewest     = prometheus.NewDesc("quoin_job_fewest_blocks", "The fewest of a running job's blocks that are large enough for it, without other jobs.", labels, nil)
	split      = prometheus.NewDesc("quoin_job_split_segments", "Segments of a running job that are not together. got has the nodes in each block.", append(slices.Clone(labels), "segment", "got"), nil)
	leaves     = prometheus.NewDesc("quoin_job_leaf_switches", "Leaf switches that a running job of two nodes or more uses.", labels, nil)
	fewestLeaf = prometheus.NewDesc("quoin_job_fewest_leaf_switches", "The fewest of a running job's leaf switches that are large enough for it, without other jobs.", labels, nil)
)

// Series are the series of a Keeper's views.
type Series struct{ keeper atomic.Pointer[Keeper] }

// NewSeries registers the series with reg.
func NewSeries(reg prometheus.Registerer) *Series {
	s := &Series{}
	reg.MustRegister(s)
	return s
}

// Watch takes the views of a Keeper.
func (s *Series) Watch(k *Keeper) { s.keeper.Store(k) }

// Describe implements prometheus.Collector.
func (*Series) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{answered, blocks, fewest, split, leaves, fewestLeaf} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Series) Collect(ch chan<- prometheus.Metric) {
	k, now := s.keeper.Load(), time.Now()
	if k == nil {
		return
	}
	for name := range k.sites {
		view := k.View(name)
		if view.Asked.IsZero() {
			continue
		}
		ch <- prometheus.MustNewConstMetric(answered, prometheus.GaugeValue, float64(view.Asked.Unix()), name)
		if !view.Fresh(now) {
			continue
		}
		for _, j := range largest(view.Jobs) {
			for i := range j.Judgements {
				send(ch, name, j.ID, &j.Judgements[i])
			}
		}
	}
}

// largest returns the jobs that have series.
func largest(all []Job) []*Job {
	var some []*Job
	nodes := map[*Job]int{}
	for i := range all {
		for k := range all[i].Judgements {
			nodes[&all[i]] = max(nodes[&all[i]], all[i].Judgements[k].Total())
		}
		if nodes[&all[i]] > 1 {
			some = append(some, &all[i])
		}
	}
	slices.SortStableFunc(some, func(a, b *Job) int { return cmp.Compare(nodes[b], nodes[a]) })
	return some[:min(len(some), maxJobs)]
}

// send sends the series of a job in a topology.
func send(ch chan<- prometheus.Metric, publication, job string, j *fit.Judgement) {
	gauge := func(d *prometheus.Desc, value int, more ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), append([]string{publication, j.Topology, job}, more...)...)
	}
	if j.Unit == fit.UnitLeaf {
		gauge(leaves, len(j.Names))
		gauge(fewestLeaf, j.Fewest)
		return
	}
	gauge(blocks, len(j.Names))
	gauge(fewest, j.Fewest)
	if j.Segments > 0 {
		got := ""
		if j.Split > 0 {
			got = j.Parts()
		}
		gauge(split, j.Split, strconv.Itoa(j.Segment), got)
	}
}
