package publisher

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// Gather joins the nodes that the publication takes with their reports. The
// map gives each by its Slurm name.
func Gather(p *Publication, snap *Snapshot) ([]topology.Facts, map[string]*Node) {
	name, err := slurmNamer(p.SlurmNames)
	if err != nil {
		panic("publisher: publication is not complete: " + err.Error())
	}
	keys := nodelabels.Keys{Tiers: p.TierLabels}
	facts := make([]topology.Facts, 0, len(snap.Nodes))
	nodes := make(map[string]*Node, len(snap.Nodes))
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if !p.takes(n) {
			continue
		}
		f := topology.Facts{Name: n.Name, SlurmName: name(n), Report: snap.Reports[n.Name], Labels: nodelabels.Read(n.Labels, keys)}
		if f.SlurmName == "" {
			continue // not a Slurm node (yet): its label or annotation is missing
		}
		facts = append(facts, f)
		nodes[f.SlurmName] = n
	}
	return facts, nodes
}

// takes reports whether the node is one of the publication's.
func (p *Publication) takes(n *Node) bool {
	return p.selector.Empty() || p.selector.Matches(labels.Set(n.Labels))
}

// unselected returns by their Slurm names the nodes that exist but are not this
// publication's.
func (p *Publication) unselected(snap *Snapshot) map[string]*Node {
	out := map[string]*Node{}
	if p.selector.Empty() {
		return out
	}
	name, err := slurmNamer(p.SlurmNames)
	if err != nil {
		return out
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; !p.takes(n) {
			out[name(n)] = n
		}
	}
	return out
}

// unsettled returns a node with GPUs whose NVLink domain is not known yet,
// empty when there is none.
func unsettled(facts []topology.Facts) string {
	for i := range facts {
		f := &facts[i]
		hasGPUs := f.GPUCount() > 0 || f.Labels.GPUs > 0 || f.Labels.Product != ""
		labelled := !f.Labels.Clique.IsZero() || len(f.Labels.Problems) > 0
		if hasGPUs && (f.Report == nil && !labelled || f.Report != nil && registering(f.Report)) {
			return f.Name
		}
	}
	return ""
}

// registering reports whether no GPU of the node has joined a domain and one
// may yet.
func registering(n *topology.Node) bool {
	waits := len(n.GPUs) == 0 && len(n.Problems) > 0
	for i := range n.GPUs {
		f := &n.GPUs[i].Fabric
		if _, joined := f.Clique(); joined {
			return false
		}
		waits = waits || f.State == topology.FabricInProgress || f.State == topology.FabricNotStarted
	}
	return waits
}
