package nodestatus

import (
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// Fabrics returns the verdicts on the NVLink fabrics of all nodes, beside those of the snapshot. judged has the
// verdicts by Node on the nodes that publications take. alone judges any other node by its report.
func Fabrics(snap *inputs.Snapshot, alone *fabric.Site, judged ...map[string]topology.FabricVerdict) []topology.FabricVerdict {
	out := make([]topology.FabricVerdict, len(snap.Nodes))
	for i := range snap.Nodes {
		name := snap.Nodes[i].Name
		at := slices.IndexFunc(judged, func(of map[string]topology.FabricVerdict) bool { _, has := of[name]; return has })
		if report := snap.Reports[name]; at < 0 || report == nil {
			out[i] = alone.Alone(report)
		} else {
			out[i] = judged[at][name]
		}
	}
	return out
}

// FabricCondition says how the NVLink fabric of a node's GPUs is. It is not known if no GPU has said.
func FabricCondition(report *topology.Node, v *topology.FabricVerdict) (c inputs.Condition, known bool) {
	if report == nil || v.Reason == topology.ReasonFabricUnread {
		return c, false
	}
	c = inputs.Condition{Type: ConditionFabric, True: v.Faulty(), Reason: v.Reason, Message: v.Message}
	if v.Asks() {
		c.Message += ". What to do: " + v.Remedy
	}
	return c, true
}
