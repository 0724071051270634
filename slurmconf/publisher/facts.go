package publisher

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// Gather joins the nodes that the publication, which is complete, takes with
// their reports. The map gives each by its Slurm name.
func Gather(p *Publication, snap *Snapshot) ([]topology.Facts, map[string]*Node) {
	keys := nodelabels.Keys{Tiers: p.TierLabels}
	facts := make([]topology.Facts, 0, len(snap.Nodes))
	nodes := make(map[string]*Node, len(snap.Nodes))
	unreadable := snap.unreadable()
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if !p.takes(n) {
			continue
		}
		f := topology.Facts{Name: n.Name, SlurmName: p.slurmName(n), Report: snap.Reports[n.Name], Labels: nodelabels.Read(n.Labels, keys)}
		f.ReportUnreadable = f.Report == nil && unreadable[n.Name]
		if f.SlurmName == "" {
			continue // not a Slurm node (yet): its label or annotation is missing
		}
		facts = append(facts, f)
		nodes[f.SlurmName] = n
	}
	return facts, nodes
}

// unreadable returns the nodes whose reports cannot be read.
func (s *Snapshot) unreadable() map[string]bool {
	out := map[string]bool{}
	for _, p := range s.Problems {
		if p.Reason == "ReportUnreadable" { // named after the node or its ConfigMap
			out[strings.TrimPrefix(p.Node, "quoin-node-")] = true
		}
	}
	return out
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
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; !p.takes(n) {
			out[p.slurmName(n)] = n
		}
	}
	return out
}

// takenByAnother reports whether another publication has the node now.
func (p *Publisher) takenByAnother(s *state, n *Node) bool {
	return slices.ContainsFunc(p.states, func(other *state) bool { return other != s && other.pub.takes(n) })
}
