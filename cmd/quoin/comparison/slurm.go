package comparison

import (
	"context"
	"fmt"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/topology"
)

// OfSlurm asks the running Slurm, and says which nodes it does not have as the files do. The
// files are by name.
func OfSlurm(ctx context.Context, slurm loaded.Slurm, files map[string]string) (*Result, error) {
	wanted, err := loaded.ReadWanted(files)
	if err != nil {
		return nil, err
	}
	question := wanted.Question()
	state, err := slurm.Ask(ctx, question)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	for _, n := range wanted.Compare(state) {
		r.Found(topology.Finding{Subject: topology.Subject{Node: n.Name}, Severity: topology.Fatal, Reason: n.Reason(), Message: n.Why})
	}
	switch r.Differs = len(r.found) > 0; {
	case r.Differs:
		r.Summary = []string{fmt.Sprintf("differs: %d of %d nodes are not in Slurm as in the plan", len(r.found), question.Nodes)}
	case state.Topologies == nil:
		r.Summary = []string{fmt.Sprintf("same, as far as slurmrestd shows: none of the %d nodes is elsewhere by its own Topology=", question.Nodes)}
	default:
		r.Summary = []string{fmt.Sprintf("same: Slurm has all %d nodes where the plan has them", question.Nodes)}
	}
	return r, nil
}
