package occupancy

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/topology"
)

// published is the plan that was last published.
type published struct {
	namespaces []string
	topologies []topology.Topology // with blocks
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

// newPublished returns the plan of a publication as Set takes it.
func newPublished(namespaces []string, topologies []topology.Topology, placed []topology.Placement, gpus map[string]int) *published {
	p := &published{namespaces: namespaces, owners: map[string]string{}, gpus: map[string]int{}}
	for i := range topologies {
		if len(topologies[i].Sizes) > 0 {
			p.topologies = append(p.topologies, topologies[i])
		}
	}
	names := map[string]int{}
	for i := range placed {
		names[placed[i].Node]++
	}
	for i := range placed {
		name, node := placed[i].SlurmName, placed[i].Node
		p.owners[name] = node
		if names[node] == 1 { // else nobody knows which of the node's GPUs a name has
			p.gpus[name] = gpus[node]
		}
	}
	return p
}

// send sends how many segments of jobs fit into the blocks, and how many nodes of a block a job may have. Package
// fit has the rules. There are no series before a state of a node is known.
func (p *published) send(ch chan<- prometheus.Metric, publication string, pods podStates, k *Keeper) {
	words := p.words(publication, pods, k)
	if words == nil {
		return
	}
	gauge := func(d *prometheus.Desc, value int, of ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), append([]string{publication}, of...)...)
	}
	ill := map[string]bool{}
	for i := range p.topologies {
		t := &p.topologies[i]
		p.collect(t.Name, fit.NewSite(t, 0, fit.StatesOf(words)), ill, gauge)
	}
	for node := range ill {
		gauge(unavailable, 1, node)
	}
}

// words returns Slurm's words for the state of a node by its Slurm name: those of worker pods, or else
// those of Slurm. It is nil if neither says any.
func (p *published) words(publication string, pods podStates, k *Keeper) func(name string) string {
	if pods != nil {
		if byNode := pods.SlurmStates(p.namespaces); len(byNode) > 0 {
			return func(name string) string { return byNode[p.owners[name]] }
		}
	}
	byName := k.View(publication).Nodes
	for name := range p.owners {
		if byName[name].State != "" {
			return func(name string) string { return byName[name].State }
		}
	}
	return nil
}

// collect sends the series of a topology, and adds its nodes that take no job to ill.
func (p *published) collect(topology string, site *fit.Site, ill map[string]bool, gauge func(d *prometheus.Desc, value int, of ...string)) {
	idle, fewest := 0, 0
	for _, b := range site.Blocks {
		count := map[fit.Use]int{}
		for _, name := range b.Nodes {
			use := site.State(name).Use
			count[use]++
			switch use {
			case fit.Free:
				if gpus := p.gpus[name]; fewest == 0 || gpus < fewest {
					fewest = gpus
				}
			case fit.Unavailable, fit.Absent:
				if node, known := p.owners[name]; known {
					ill[node] = true
				}
			}
		}
		idle += count[fit.Free]
		for _, use := range fit.Uses {
			if len(b.Nodes) > 0 {
				gauge(nodes, count[use], topology, b.Name, use.String())
			}
		}
	}
	for _, row := range site.Free(fit.Sizes...) {
		size := strconv.Itoa(row.Size)
		gauge(free, row.Now, topology, size)
		gauge(maximum, row.All, topology, size)
		gauge(stranded, (idle-row.Now*row.Size)*fewest, topology, size)
	}
}
