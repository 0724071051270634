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
		if !p.selector.Empty() && !p.selector.Matches(labels.Set(n.Labels)) {
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

// unselected returns the Slurm names of nodes that exist but are not this
// publication's.
func (p *Publication) unselected(snap *Snapshot) map[string]bool {
	out := map[string]bool{}
	if p.selector.Empty() {
		return out
	}
	name, err := slurmNamer(p.SlurmNames)
	if err != nil {
		return out
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; !p.selector.Matches(labels.Set(n.Labels)) {
			out[name(n)] = true
		}
	}
	return out
}

// publishedNodes lists the nodes of the published files, each once.
func publishedNodes(prev *topology.Previous) []string {
	if prev == nil {
		return nil
	}
	var out []string
	seen := map[string]bool{}
	add := func(names []string) {
		for _, n := range names {
			if !seen[n] {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	for _, b := range prev.Blocks {
		add(b.Nodes)
	}
	for _, s := range prev.Switches {
		add(s.Nodes)
	}
	return out
}

// unsettled returns a node with GPUs whose NVLink domain is not known yet,
// empty when there is none.
func unsettled(plan *topology.Plan, facts []topology.Facts) string {
	gpus := make(map[string]bool, len(facts))
	for i := range facts {
		gpus[facts[i].SlurmName] = facts[i].GPUCount() > 0 || facts[i].Labels.Product != ""
	}
	for _, pl := range plan.Placements {
		waiting := pl.Reason == topology.ReasonFabricInProgress || pl.Reason == topology.ReasonNoFacts
		if pl.Block == "" && waiting && gpus[pl.SlurmName] {
			return pl.Node
		}
	}
	return ""
}
