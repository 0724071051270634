package publisher

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// nodeInfo is the published place of one node.
type nodeInfo struct{ node, block, leaf, clique string }

// nodeInfos serves quoin_node_info: one series for each node that has a published place,
// in each publication.
type nodeInfos struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	of   map[string][]nodeInfo // by publication
}

func newNodeInfos() *nodeInfos {
	return &nodeInfos{of: map[string][]nodeInfo{}, desc: prometheus.NewDesc("quoin_node_info",
		"1 for each node with a published place: its block, the leaf switch above it and its NVLink clique. Empty where it has none. node is the Kubernetes Node's name.",
		[]string{"publication", "node", "block", "switch", "clique"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *nodeInfos) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *nodeInfos) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for publication, nodes := range c.of {
		for i := range nodes {
			n := &nodes[i]
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, 1, publication, n.node, n.block, n.leaf, n.clique)
		}
	}
}

// set replaces the nodes of a publication.
func (c *nodeInfos) set(publication string, nodes []nodeInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[publication] = nodes
}

// clear forgets all publications, because another publisher leads.
func (c *nodeInfos) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.of)
}

// nodeInfosOf returns the places of those nodes that exist.
func nodeInfosOf(places map[string]placement.Place, g *gathered) []nodeInfo {
	out := make([]nodeInfo, 0, len(places))
	names := map[topology.Clique]string{{}: ""}
	for i := range g.Facts {
		f := &g.Facts[i]
		n := g.Nodes[f.SlurmName]
		place, placed := places[f.SlurmName]
		if n == nil || !placed {
			continue
		}
		clique := cliqueOf(f)
		name, known := names[clique]
		if !known {
			name = clique.String()
			names[clique] = name
		}
		out = append(out, nodeInfo{n.Name, labelValue(place.Block), labelValue(place.Leaf), name})
	}
	return out
}

// cliqueOf is a node's NVLink clique as its GPUs say, else as its label says.
func cliqueOf(f *topology.Facts) topology.Clique {
	if f.Report != nil {
		for i := range f.Report.GPUs {
			if c, joined := f.Report.GPUs[i].Fabric.Clique(); joined {
				return c
			}
		}
	}
	return f.Labels.Clique
}

// labelValue returns text as Prometheus takes it.
func labelValue(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// places are those of the nodes in the files.
func (m *Rendered) places() map[string]placement.Place {
	var names slurmconf.Names
	for i := range m.topologies {
		names.Add(&m.topologies[i])
	}
	out := make(map[string]placement.Place, len(m.Specs))
	for i := range m.Plan.Placements {
		pl := &m.Plan.Placements[i]
		if m.Specs[pl.SlurmName] == "" {
			continue
		}
		var place placement.Place
		if names.Blocks != "" {
			place.Block = pl.Block
		}
		if names.Tree != "" {
			place.Leaf = pl.Switch
		}
		out[pl.SlurmName] = place
	}
	return out
}
