package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/quoin-hpc/quoin/cmd/quoin/findings"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
)

// checkSlurm asks the running Slurm, and says which nodes it does not have as the files do.
func checkSlurm(ctx context.Context, o *checkOptions, files []lint.File) (*result, error) {
	pub, err := o.render.cluster(o.render.publication)
	if err != nil {
		return nil, err
	}
	slurm := loaded.AskerOf(pub)
	if slurm == nil {
		return nil, errors.New("--ask: the publication does not say how Slurm is asked: set publications.slurm.url and publications.slurm.tokenFile, or publications.slurm.scontrol")
	}
	texts := map[string]string{}
	for _, f := range files {
		texts[filepath.Base(f.Name)] = string(f.Data)
	}
	wanted, err := loaded.ReadWanted(texts)
	if err != nil {
		return nil, err
	}
	question := wanted.Question()
	state, err := slurm.Ask(ctx, question)
	if err != nil {
		return nil, err
	}
	r := &result{}
	for _, n := range wanted.Compare(state) {
		r.Findings = append(r.Findings, findings.Finding{Nodes: []string{n.Name}, Remark: findings.Remark{Reason: n.Reason(), Message: n.Why}})
	}
	switch r.Differs = len(r.Findings) > 0; {
	case r.Differs:
		r.Summary = []string{fmt.Sprintf("differs: %d of %d nodes are not in Slurm as in the plan", len(r.Findings), question.Nodes)}
	case state.Topologies == nil:
		r.Summary = []string{fmt.Sprintf("same, as far as slurmrestd shows: none of the %d nodes is elsewhere by its own Topology=", question.Nodes)}
	default:
		r.Summary = []string{fmt.Sprintf("same: Slurm has all %d nodes where the plan has them", question.Nodes)}
	}
	return r, nil
}
