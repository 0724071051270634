package nodestatus

import (
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// Judge returns the conditions of nodes that have none, by the node's name and by type. Nobody
// writes conditions with a directory store, for example. fabrics are beside the nodes of the snapshot. hosts judges
// IMEX; it may be nil. moved names nodes whose published place is not the planned one.
func Judge(snap *inputs.Snapshot, plan *topology.Plan, fabrics []topology.FabricVerdict, hosts *imex.Hosts, moved []topology.Finding) map[string]map[string]inputs.Condition {
	var verdicts map[string]imex.Verdict
	if hosts != nil {
		if o, err := hosts.Snapshot(); err == nil {
			o.Nodes = Members(snap, fabrics)
			verdicts = imex.Judge(o)
		}
	}
	var d drift
	d.found(&Pass{Plan: plan, Problems: plan.Problems}, time.Time{})
	d.problems = append(d.problems, moved...)
	drifting := map[string][]topology.Finding{}
	d.addTo(drifting, time.Time{})
	out := map[string]map[string]inputs.Condition{}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if len(n.Conditions) > 0 {
			continue
		}
		out[n.Name] = map[string]inputs.Condition{}
		for _, c := range conditionsOf(n, snap.Reports[n.Name], &fabrics[i], drifting[n.Name], verdicts) {
			out[n.Name][c.Type] = c
		}
	}
	return out
}
