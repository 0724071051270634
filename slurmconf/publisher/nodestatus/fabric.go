package nodestatus

import (
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// FabricPlan is what a publication knows of the NVLink fabrics of its nodes.
type FabricPlan struct {
	// Plan may be nil.
	Plan *topology.Plan
	// Since says by Node since when a fabric is not ready.
	Since map[string]time.Time
	// MaxDomainGPUs is the key of the publication.
	MaxDomainGPUs int
}

// blocks are the blocks of the Nodes.
func (p *FabricPlan) blocks() map[string]string {
	out := map[string]string{}
	if p.Plan == nil || p.Plan.ByLeaf {
		return out
	}
	places := p.Plan.Places()
	for i := range p.Plan.Nodes {
		n := &p.Plan.Nodes[i]
		if at := places[n.SlurmName].Block; at != "" {
			out[n.Node] = at
		}
	}
	return out
}

// Fabrics judges the NVLink fabrics of all nodes. The verdicts are beside those of the snapshot.
func Fabrics(snap *inputs.Snapshot, plans ...FabricPlan) []topology.FabricVerdict {
	nodes := make([]topology.FabricNode, len(snap.Nodes))
	var blocks []map[string]string // of the plans, nil as long as nobody needs them
	most := 0
	for i := range plans {
		most = max(most, plans[i].MaxDomainGPUs)
	}
	for i := range snap.Nodes {
		from, n := &snap.Nodes[i], &nodes[i]
		if n.Report = snap.Reports[from.Name]; n.Report == nil {
			labels := nodelabels.Read(from.Labels, nodelabels.Keys{})
			n.Product, n.GPUs, n.Labelled = labels.Product, labels.GPUs, labels.Clique
			continue
		}
		if d := n.Report.Joined(); !d.Clique.IsZero() { // as most nodes have
			continue
		}
		for k := range plans {
			if blocks == nil {
				blocks = make([]map[string]string, len(plans))
			}
			if blocks[k] == nil {
				blocks[k] = plans[k].blocks()
			}
			if n.Block == "" {
				n.Block = blocks[k][from.Name]
			}
			if n.Since.IsZero() {
				n.Since = plans[k].Since[from.Name]
			}
		}
	}
	verdicts, _ := topology.JudgeFabrics(nodes, most)
	return verdicts
}

// fabricCondition says how the NVLink fabric of a node's GPUs is. It is not known if no GPU has said.
func fabricCondition(report *topology.Node, v *topology.FabricVerdict) (c inputs.Condition, known bool) {
	if report == nil || v.Reason == topology.ReasonFabricUnread {
		return c, false
	}
	c = inputs.Condition{Type: ConditionFabric, True: v.Faulty(), Reason: v.Reason, Message: v.Message}
	if c.True && v.Remedy != "" {
		c.Message += ". What to do: " + v.Remedy
	}
	return c, true
}
