package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/jobs/report"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
)

// addNames returns the runs with Slurm's names. If only Slurm knows the job, addNames adds its run. slurm is nil if
// nobody can be asked. Slurm is not asked about a job that has ended. If there is a record of the job and Slurm cannot
// be asked, addNames tells warn why.
func addNames(ctx context.Context, slurm *client.Client, id string, runs []report.Run, warn func(error)) ([]report.Run, error) {
	known := report.Of(runs, id, true)
	if len(known) > 0 && (slurm == nil || !slices.ContainsFunc(known, func(r report.Run) bool { return !r.Ended() })) {
		return runs, nil
	}
	if slurm == nil {
		return nil, fmt.Errorf("job %s: no record of it here, and nobody can be asked where it runs: set %s, or give --summary-dir", id, slurmKeys)
	}
	a := slurm.Newer(ctx, client.Question{Jobs: true}, time.Now())
	switch {
	case a.Err != nil && len(known) == 0:
		return nil, fmt.Errorf("ask Slurm about job %s: %w", id, a.Err)
	case a.Err != nil:
		warn(fmt.Errorf("ask Slurm for the name of the job: %w", a.Err))
		return runs, nil //nolint:nilerr // warn tells it, and the records say the rest
	}
	for i := range a.State.Jobs {
		if j := &a.State.Jobs[i]; j.IsOf(id) {
			runs = addJob(runs, j)
		}
	}
	return runs, nil
}

// addJob gives the runs of a job Slurm's names. If there is no run of the job here, addJob adds the one
// that Slurm knows.
func addJob(runs []report.Run, j *slurmctld.Job) []report.Run {
	nodes, _ := hostlist.Expand(j.Nodes) // Slurm's own list
	record := rundir.Record{JobID: j.ID, User: j.User, Account: j.Account, Partition: j.Partition, Cluster: j.Cluster, NodeList: j.Nodes, NumNodes: strconv.Itoa(len(nodes))}
	if !j.Start.IsZero() {
		record.StartTime = strconv.FormatInt(j.Start.Unix(), 10)
	}
	if len(report.Of(runs, j.ID, true)) == 0 {
		runs = append(runs, report.OfSlurm(&record))
	}
	for i := range runs {
		if runs[i].Is(&record) {
			runs[i].Call(j.Name, j.Array, j.QOS)
		}
	}
	return runs
}
