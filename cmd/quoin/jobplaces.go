package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/report"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
)

// jobPlaces asks the Slurm of a publication for a job of which there is no record here.
type jobPlaces struct {
	// slurm is nil if nobody can be asked.
	slurm *client.Client
}

func openPlaces(s *session.Session) (*jobPlaces, error) {
	pub, err := s.Publication()
	if err != nil {
		return nil, err
	}
	return &jobPlaces{slurmOnce(pub)}, nil
}

// add returns runs from Slurm's answer if there are no others.
func (p *jobPlaces) add(ctx context.Context, id string, runs []report.Run) ([]report.Run, error) {
	switch {
	case len(runs) > 0:
		return runs, nil
	case p.slurm == nil:
		return nil, fmt.Errorf("job %s: no record of it here, and nobody can be asked where it runs: set %s, or give --summary-dir", id, slurmKeys)
	}
	a := p.slurm.Newer(ctx, client.Question{Jobs: true}, time.Now())
	if a.Err != nil {
		return nil, fmt.Errorf("ask Slurm about job %s: %w", id, a.Err)
	}
	return runningJobs(&a.State, id), nil
}

// runningJobs returns the jobs of the id that run according to Slurm.
func runningJobs(state *slurmctld.State, id string) (runs []report.Run) {
	for i := range state.Jobs {
		j := &state.Jobs[i]
		if !j.IsOf(id) {
			continue
		}
		nodes, _ := hostlist.Expand(j.Nodes) // Slurm's own list
		record := &rundir.Record{JobID: j.ID, User: j.User, Account: j.Account, Partition: j.Partition, JobName: j.Name, NodeList: j.Nodes, NumNodes: strconv.Itoa(len(nodes))}
		record.ArrayJobID, record.ArrayTaskID, _ = strings.Cut(j.Array, "_")
		if !j.Start.IsZero() {
			record.StartTime = strconv.FormatInt(j.Start.Unix(), 10)
		}
		runs = append(runs, report.OfSlurm(record))
	}
	return runs
}
