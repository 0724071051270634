package occupancy

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/topology"
)

// maxJobs is how many jobs of a publication have series of their blocks and leaf switches, and maxInfos how
// many have quoin_job_info: those with the most nodes.
const maxJobs, maxInfos = 1000, 10_000

var (
	labels     = []string{"publication", "topology", "job_id"}
	blocks     = prometheus.NewDesc("quoin_job_blocks", "Blocks that a running job of two nodes or more uses.", labels, nil)
	fewest     = prometheus.NewDesc("quoin_job_fewest_blocks", "The fewest of a running job's blocks that are large enough for it, without other jobs.", labels, nil)
	split      = prometheus.NewDesc("quoin_job_split_segments", "Segments of a running job that are not together. got has the nodes in each block.", append(slices.Clone(labels), "segment", "got"), nil)
	leaves     = prometheus.NewDesc("quoin_job_leaf_switches", "Leaf switches that a running job of two nodes or more uses.", labels, nil)
	info       = prometheus.NewDesc("quoin_job_info", "1 for each running job with GPUs, as Slurm says it. At most 10,000 jobs of a publication have it: those with the most nodes.", []string{"publication", "cluster", "job_id", "array_job_id", "job_name", "qos"}, nil)
	fewestLeaf = prometheus.NewDesc("quoin_job_fewest_leaf_switches", "The fewest of a running job's leaf switches that are large enough for it, without other jobs.", labels, nil)
)

// Series serves how jobs and further segments of jobs lie in the blocks of each publication. Jobs and the
// states of nodes are read when somebody asks for the series, because each job changes them.
type Series struct {
	mu     sync.Mutex
	pods   podStates // or nil
	keeper *Keeper
	log    *slog.Logger
	plans  map[string]*published
	cut    map[string]bool // publications with jobs that have no quoin_job_info
}

// podStates says how the nodes are by worker pods.
type podStates interface {
	// SlurmStates returns Slurm's words for the state of each node by its name in Kubernetes,
	// as conditions of the worker pods in the namespaces have them. "" stands for all namespaces.
	SlurmStates(namespaces []string) map[string]string
}

// NewSeries registers the series with reg.
func NewSeries(reg prometheus.Registerer) *Series {
	s := &Series{keeper: New(nil), plans: map[string]*published{}, cut: map[string]bool{}}
	reg.MustRegister(s)
	return s
}

// Watch takes the views of a Keeper, and the states of nodes from a store, if the store knows any.
func (s *Series) Watch(k *Keeper, store any, log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper, s.log = k, log
	s.pods, _ = store.(podStates)
}

// Set takes the plan of a publication, with how many GPUs a node has by its name in Kubernetes.
func (s *Series) Set(publication string, namespaces []string, topologies []topology.Topology, placed []topology.Placement, gpus map[string]int) {
	p := newPublished(namespaces, topologies, placed, gpus)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans[publication] = p
}

// Clear forgets all plans.
func (s *Series) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.plans)
}

// Describe implements prometheus.Collector.
func (*Series) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{blocks, fewest, split, leaves, fewestLeaf, info, free, maximum, stranded, nodes, unavailable} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Series) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	pods, k, plans := s.pods, s.keeper, maps.Clone(s.plans)
	s.mu.Unlock()
	for publication, p := range plans {
		p.send(ch, publication, pods, k)
	}
	for name := range k.sites {
		view := k.View(name)
		if view.Asked.IsZero() {
			continue
		}
		wide, _ := largest(view.Jobs, maxJobs, func(j *Job) bool { return j.nodes() > 1 })
		for _, j := range wide {
			for i := range j.Judgements {
				send(ch, name, j.ID, &j.Judgements[i])
			}
		}
		withGPUs, more := largest(view.Jobs, maxInfos, func(j *Job) bool { return j.HoldsGPUs })
		s.noteCut(name, more)
		for _, j := range withGPUs {
			array, _, _ := strings.Cut(j.Array, "_")
			ch <- prometheus.MustNewConstMetric(info, prometheus.GaugeValue, 1, name, j.Cluster, j.ID, array, j.Name, j.QOS)
		}
	}
}

// nodes is how many nodes of a topology the job has: the most of all topologies.
func (j *Job) nodes() (most int) {
	for i := range j.Judgements {
		most = max(most, j.Judgements[i].Total())
	}
	return most
}

// largest returns the wanted jobs with the most nodes, and how many wanted jobs are left out.
func largest(all []Job, limit int, wanted func(*Job) bool) (some []*Job, more int) {
	for i := range all {
		if wanted(&all[i]) {
			some = append(some, &all[i])
		}
	}
	slices.SortStableFunc(some, func(a, b *Job) int { return cmp.Compare(b.nodes(), a.nodes()) })
	more = max(len(some)-limit, 0)
	return some[:len(some)-more], more
}

// noteCut logs that jobs of a publication have no quoin_job_info: once until all have it again.
func (s *Series) noteCut(publication string, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if more > 0 && !s.cut[publication] {
		s.log.Warn("some running jobs have no quoin_job_info, because too many hold GPUs", "publication", publication, "jobs", more, "limit", maxInfos)
	}
	s.cut[publication] = more > 0
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
