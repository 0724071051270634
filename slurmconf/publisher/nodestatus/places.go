package nodestatus

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// Place is the published place of one Node. What it does not have is empty.
type Place struct{ Node, Block, Leaf, Clique string }

// Places serves quoin_node_info: one series for each node that has a published place, in
// each publication.
type Places struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	of   map[string][]Place // by publication
}

func newPlaces() *Places {
	return &Places{of: map[string][]Place{}, desc: prometheus.NewDesc("quoin_node_info",
		"1 for each node with a published place. switch is the leaf switch; node is the Kubernetes Node's name.",
		[]string{"publication", "node", "block", "switch", "clique"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *Places) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *Places) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for publication, places := range c.of {
		for i := range places {
			p := &places[i]
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, 1, publication, p.Node, p.Block, p.Leaf, p.Clique)
		}
	}
}

// Set replaces the places of a publication.
func (c *Places) Set(publication string, places []Place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[publication] = places
}

// Clear forgets all publications, because another publisher leads.
func (c *Places) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.of)
}

// PlacesOf returns the places of those nodes that exist. published and nodes are by Slurm
// name.
func PlacesOf(published map[string]topology.Place, facts []topology.Facts, nodes map[string]*inputs.Node) []Place {
	out := make([]Place, 0, len(published))
	for i := range facts {
		f := &facts[i]
		place, placed := published[f.SlurmName]
		if n := nodes[f.SlurmName]; n != nil && placed {
			out = append(out, Place{n.Name, labelValue(place.Block), labelValue(place.Leaf), cliqueOf(f)})
		}
	}
	return out
}

// cliqueOf is a node's NVLink clique as its GPUs say, else as its label says.
func cliqueOf(f *topology.Facts) string {
	if f.Report != nil {
		for i := range f.Report.GPUs {
			if c, joined := f.Report.GPUs[i].Fabric.Clique(); joined {
				return c.String()
			}
		}
	}
	if f.Labels.Clique == (topology.Clique{}) {
		return ""
	}
	return f.Labels.Clique.String()
}

// labelValue returns text as Prometheus takes it.
func labelValue(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
