package occupancy

import (
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// podStates says how the nodes are by worker pods.
type podStates interface {
	// SlurmStates returns Slurm's words for the state of each node by its name in Kubernetes,
	// as conditions of the worker pods in the namespaces have them. "" stands for all namespaces.
	SlurmStates(namespaces []string) map[string]string
}

// slurmStates says how the nodes are where Slurm is asked.
type slurmStates interface {
	// NodeStates returns Slurm's words for the states of a publication's nodes by Slurm name.
	NodeStates(publication string) map[string]string
}

// Segments serves how many segments of jobs fit into the blocks of each publication, and how
// many nodes of a block a job may have. Package fit has the rules. The states of nodes are read
// when somebody asks for the series, because each job changes them. A publication has the series
// once a state of a node is known.
type Segments struct {
	mu     sync.Mutex
	states podStates
	slurm  slurmStates
	plans  map[string]*published
}

// published is the plan that was last published.
type published struct {
	namespaces []string
	topologies []*fittable
}

// fittable is a block topology.
type fittable struct {
	name string
	site fit.Site
	// owners are the names of nodes in Kubernetes, and gpus how many each has, by Slurm name.
	owners map[string]string
	gpus   map[string]int
}

var (
	sizeLabels  = []string{"publication", "topology", "size"}
	free        = prometheus.NewDesc("quoin_free_segments", "Segments of this size that fit together into the free nodes.", sizeLabels, nil)
	maximum     = prometheus.NewDesc("quoin_max_segments", "Segments of this size if every node were available.", sizeLabels, nil)
	stranded    = prometheus.NewDesc("quoin_stranded_gpus", "GPUs of free nodes that segments of this size leave over.", sizeLabels, nil)
	nodes       = prometheus.NewDesc("quoin_block_nodes", "Nodes of a block by what a job can do with them: free, busy or unavailable.", []string{"publication", "topology", "block", "state"}, nil)
	unavailable = prometheus.NewDesc("quoin_node_unavailable", "1 for a node that is drained, down or not in Slurm.", []string{"publication", "node"}, nil)
)

// NewSegments registers the series with reg.
func NewSegments(reg prometheus.Registerer) *Segments {
	c := &Segments{plans: map[string]*published{}}
	reg.MustRegister(c)
	return c
}

// Watch takes the states from a store, if the store knows them, and else from Slurm.
func (c *Segments) Watch(store any, slurm slurmStates) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states, _ = store.(podStates)
	c.slurm = slurm
}

// Clear forgets all publications.
func (c *Segments) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.plans)
}

// Set takes the plan of a publication, with how many GPUs a node has by its name in Kubernetes.
func (c *Segments) Set(publication string, namespaces []string, topologies []topology.Topology, placed []topology.Placement, gpus map[string]int) {
	p := &published{namespaces: namespaces}
	for i := range topologies {
		if t := &topologies[i]; len(t.Sizes) > 0 {
			p.topologies = append(p.topologies, newFittable(t, placed, gpus))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans[publication] = p
}

func newFittable(t *topology.Topology, placed []topology.Placement, gpus map[string]int) *fittable {
	f := &fittable{name: t.Name, site: fit.Site{Sizes: t.Sizes, Blocks: t.Blocks}, owners: map[string]string{}, gpus: map[string]int{}}
	in := map[string]bool{}
	for _, b := range t.Blocks {
		for _, name := range b.Nodes {
			in[name] = true
		}
	}
	names := map[string]int{} // of a Node; nobody knows how many GPUs each of several names has
	for i := range placed {
		names[placed[i].Node]++
	}
	for i := range placed {
		n := &placed[i]
		if !in[n.SlurmName] {
			continue
		}
		f.owners[n.SlurmName] = n.Node
		if names[n.Node] == 1 {
			f.gpus[n.SlurmName] = gpus[n.Node]
		}
	}
	return f
}

// Describe implements prometheus.Collector.
func (c *Segments) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{free, maximum, stranded, nodes, unavailable} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Segments) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	states, slurm, plans := c.states, c.slurm, maps.Clone(c.plans)
	c.mu.Unlock()
	for publication, p := range plans {
		var words map[string]string
		if states != nil {
			words = states.SlurmStates(p.namespaces)
		}
		if len(words) == 0 && slurm != nil {
			words = p.byOwner(slurm.NodeStates(publication))
		}
		if len(words) == 0 {
			continue
		}
		gauge := func(d *prometheus.Desc, value int, of ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), append([]string{publication}, of...)...)
		}
		ill := map[string]bool{}
		for _, t := range p.topologies {
			t.collect(words, ill, gauge)
		}
		for node := range ill {
			gauge(unavailable, 1, node)
		}
	}
}

// byOwner returns words by the names of nodes in Kubernetes.
func (p *published) byOwner(bySlurm map[string]string) map[string]string {
	words := make(map[string]string, len(bySlurm))
	for _, t := range p.topologies {
		for name, node := range t.owners {
			if word, known := bySlurm[name]; known {
				words[node] = inputs.JoinStates(words[node], word)
			}
		}
	}
	return words
}

// collect sends the series of a topology, and adds its nodes that take no job to ill.
func (t *fittable) collect(words map[string]string, ill map[string]bool, gauge func(d *prometheus.Desc, value int, of ...string)) {
	known := map[string]fit.State{"": {Use: fit.Unavailable}} // a site has few words
	state := make(map[string]fit.State, len(t.owners))
	site := t.site
	site.State = func(node string) fit.State {
		s, is := state[node]
		if !is {
			s.Use = fit.Unavailable
		}
		return s
	}
	for name, node := range t.owners {
		word := words[node]
		s, is := known[word]
		if !is {
			s = fit.StateOf(strings.Split(word, "+")...)
			known[word] = s
		}
		state[name] = s
		if s.Use == fit.Unavailable {
			ill[node] = true
		}
	}
	idle, fewest := 0, 0
	for _, b := range site.Blocks {
		count := map[fit.Use]int{}
		for _, name := range b.Nodes {
			use := site.State(name).Use
			count[use]++
			if gpus := t.gpus[name]; use == fit.Free && (fewest == 0 || gpus < fewest) {
				fewest = gpus
			}
		}
		idle += count[fit.Free]
		for _, use := range fit.Uses {
			if len(b.Nodes) > 0 {
				gauge(nodes, count[use], t.name, b.Name, use.String())
			}
		}
	}
	for _, row := range site.Segments(&fit.Request{}, fit.Sizes...) {
		size := strconv.Itoa(row.Size)
		gauge(free, row.Now, t.name, size)
		gauge(maximum, row.All, t.name, size)
		gauge(stranded, (idle-row.Now*row.Size)*fewest, t.name, size)
	}
}
