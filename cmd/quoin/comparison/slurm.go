package comparison

import (
	"context"
	"fmt"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/topology"
)

// OfSlurm asks the running Slurm, and says which nodes it does not have as the files do. The
// files are by name.
func OfSlurm(ctx context.Context, slurm *client.Client, files map[string]string) (*show.Result, error) {
	wanted, err := loaded.ReadWanted(files)
	if err != nil {
		return nil, err
	}
	a := slurm.Ask(ctx, wanted.Question(), 0)
	if a.Err != nil {
		return nil, a.Err
	}
	r := &show.Result{}
	for _, n := range wanted.Compare(&a.State) {
		r.Found(topology.Finding{Subject: topology.Subject{Node: n.Name}, Severity: topology.Fatal, Reason: n.Reason(), Message: n.Why})
	}
	switch {
	case len(r.Findings) > 0:
		r.Summary = []string{fmt.Sprintf("differs: %d of %d nodes are not in Slurm as in the plan", len(r.Findings), wanted.Nodes())}
	case a.State.Topologies == nil:
		r.Found(topology.Finding{Severity: topology.Unknown, Reason: ReasonTopologyNotShown, Message: "slurmrestd does not show where nodes are, only Topology= that a node has of its own", Remedy: "set slurm.scontrol, or give --topology"})
		r.Summary = []string{fmt.Sprintf("same, as far as slurmrestd shows: none of the %d nodes is elsewhere by its own Topology=", wanted.Nodes())}
	default:
		r.Summary = []string{fmt.Sprintf("same: Slurm has all %d nodes where the plan has them", wanted.Nodes())}
	}
	return r, nil
}
