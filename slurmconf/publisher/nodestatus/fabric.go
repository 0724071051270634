package nodestatus

import (
	"maps"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// FabricPlan is what a publication knows of the NVLink fabrics of its nodes.
type FabricPlan struct {
	// Plan may be nil.
	Plan *topology.Plan
	// Since says by Node since when a fabric is not ready.
	Since map[string]time.Time
	// MaxDomainGPUs and Partitions are keys of the publication.
	MaxDomainGPUs topology.Bounds
	Partitions    bool
}

// blocks are the blocks of the Nodes.
func (p *FabricPlan) blocks() map[string]*topology.Block {
	if p.Plan == nil || p.Plan.ByLeaf {
		return nil
	}
	bySlurm := map[string]*topology.Block{}
	blocks := p.Plan.Blocks()
	for i := range blocks {
		for _, n := range blocks[i].Nodes {
			bySlurm[n] = &blocks[i]
		}
	}
	out := make(map[string]*topology.Block, len(bySlurm))
	for i := range p.Plan.Nodes {
		n := &p.Plan.Nodes[i]
		if at := bySlurm[n.SlurmName]; at != nil {
			out[n.Node] = at
		}
	}
	return out
}

// Fabrics judges the NVLink fabrics of all nodes. The verdicts are beside those of the snapshot.
func Fabrics(snap *inputs.Snapshot, plans ...FabricPlan) []topology.FabricVerdict {
	nodes := make([]topology.FabricNode, len(snap.Nodes))
	bounds, blocks, partitions := topology.Bounds{}, make([]map[string]*topology.Block, len(plans)), false
	for i := range plans {
		blocks[i] = plans[i].blocks()
		maps.Copy(bounds, plans[i].MaxDomainGPUs)
		partitions = partitions || plans[i].Partitions
	}
	for i := range snap.Nodes {
		from, n := &snap.Nodes[i], &nodes[i]
		if n.Report = snap.Reports[from.Name]; n.Report == nil {
			facts := snap.Facts(from, nodelabels.Keys{})
			*n = facts.FabricNode()
			continue
		}
		n.Partitions = partitions
		for k := range plans {
			if n.Block == nil {
				n.Block = blocks[k][from.Name]
			}
			if at := plans[k].Since[from.Name]; !at.IsZero() {
				n.Since = plandoc.SinceText(at)
			}
		}
	}
	verdicts, _ := topology.JudgeFabrics(nodes, bounds)
	return verdicts
}

// fabricCondition says how the NVLink fabric of a node's GPUs is. It is not known if no GPU has said.
func fabricCondition(report *topology.Node, v *topology.FabricVerdict) (c inputs.Condition, known bool) {
	if report == nil || v.Reason == topology.ReasonFabricUnread {
		return c, false
	}
	c = inputs.Condition{Type: ConditionFabric, True: v.Faulty(), Reason: v.Reason, Message: v.Message}
	if v.Asks() {
		c.Message += ". What to do: " + v.Remedy
	}
	return c, true
}
