package show

import (
	"fmt"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// The reasons why something is not compared.
const (
	reasonNodesNotCompared = "NodesNotCompared"
	reasonTopologyNotShown = "TopologyNotShown"
)

// notCompared is the finding if the files name no nodes.
var notCompared = topology.Finding{Severity: topology.Unknown, Reason: reasonNodesNotCompared,
	Message: "the files name no nodes, so it is not known whether Slurm has each node in its place", Remedy: "give --nodes in place of --files"}

// LoadedResult names the nodes that Slurm has in another place than the files. The state answers the
// files' question.
func LoadedResult(wanted *loaded.Wanted, state *slurmctld.State) *Result {
	r := &Result{}
	for _, n := range wanted.Compare(state) {
		r.Found(topology.Finding{Subject: topology.Subject{Node: n.Name}, Severity: topology.Fatal, Reason: n.Reason(), Message: n.Why})
	}
	switch {
	case len(r.Findings) > 0:
		r.Summary = []string{fmt.Sprintf("differs: %d of %d nodes are not in Slurm as in the plan", len(r.Findings), wanted.Nodes())}
	case wanted.Nodes() == 0:
		r.Found(notCompared)
	case state.Topologies == nil:
		r.Found(topology.Finding{Severity: topology.Unknown, Reason: reasonTopologyNotShown, Message: "slurmrestd does not show where nodes are, only Topology= that a node has of its own", Remedy: "set slurm.scontrol, or give --topology"})
		r.Summary = []string{fmt.Sprintf("same, as far as slurmrestd shows: none of the %d nodes is elsewhere by its own Topology=", wanted.Nodes())}
	default:
		r.Summary = []string{fmt.Sprintf("same: Slurm has all %d nodes where the plan has them", wanted.Nodes())}
	}
	return r
}

// ShownResult says what differs between the output of scontrol show topology and the plan. nodes is
// the number of nodes in the plan.
func ShownResult(differences []slurmctld.Difference, nodes int) *Result {
	switch {
	case len(differences) == 0 && nodes == 0:
		return &Result{Summary: []string{"same: Slurm has the blocks and switches of the plan"}, Findings: []topology.Finding{notCompared}}
	case len(differences) == 0:
		return &Result{Summary: []string{fmt.Sprintf("same: Slurm has all %d nodes where the plan has them", nodes)}}
	}
	r := &Result{}
	units := 0
	for _, d := range differences {
		if d.Node == "" {
			units++
		}
		r.Found(d.Finding())
	}
	r.Summary = []string{fmt.Sprintf("differs: %d of %d nodes; %d blocks, switches or sizes", len(differences)-units, nodes, units)}
	return r
}
