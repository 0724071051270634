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
	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
)

// jobPlaces are where a job may lie in the topologies of the stored plan. The nodes come from Slurm,
// if it can be asked, and else from records.
type jobPlaces struct {
	topologies *fit.Map
	// slurm is nil if nobody can be asked.
	slurm *client.Client
}

// openPlaces returns the places of a publication's stored plan.
func openPlaces(ctx context.Context, s *session.Session) (*jobPlaces, error) {
	pub, err := s.Publication()
	if err != nil {
		return nil, err
	}
	doc, err := s.Plan(ctx, pub.Name)
	if err != nil {
		return nil, err
	}
	return &jobPlaces{fit.NewMap(doc.Current.Plan.Topologies), slurmOnce(pub)}, nil
}

// add says where the runs of a job lie. If there are no runs and Slurm has the job, add returns runs
// from Slurm's answer. If there are runs and Slurm cannot be asked, add tells warn why.
func (p *jobPlaces) add(ctx context.Context, id string, runs []report.Run, warn func(error)) ([]report.Run, error) {
	state := &slurmctld.State{}
	if p.slurm != nil {
		a := p.slurm.Newer(ctx, client.Question{Jobs: true}, time.Now())
		switch {
		case a.Err != nil && len(runs) == 0:
			return nil, fmt.Errorf("ask Slurm about job %s: %w", id, a.Err)
		case a.Err != nil:
			warn(fmt.Errorf("ask Slurm where the job runs: %w", a.Err))
		default:
			state = &a.State
		}
	} else if len(runs) == 0 {
		return nil, fmt.Errorf("job %s: no record of it here, and nobody can be asked where it runs: set %s, or give --summary-dir", id, slurmKeys)
	}
	if len(runs) == 0 {
		return p.running(state, id), nil
	}
	for i := range runs {
		p.addTo(&runs[i], state)
	}
	return runs, nil
}

// running returns the jobs of the id that run according to Slurm.
func (p *jobPlaces) running(state *slurmctld.State, id string) (runs []report.Run) {
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
		run := report.OfSlurm(record)
		run.Lies(layoutsOf(p.topologies.Judge(j, state.Partitions)))
		runs = append(runs, run)
	}
	return runs
}

// addTo judges a run as Slurm tells of it, or else by its nodes alone.
func (p *jobPlaces) addTo(r *report.Run, state *slurmctld.State) {
	job, partitions := &slurmctld.Job{Nodes: r.NodeList(), Segment: -1}, map[string]string(nil)
	for i := range state.Jobs {
		j := &state.Jobs[i]
		if j.ID == r.ID() && (r.Start() == "" || strconv.FormatInt(j.Start.Unix(), 10) == r.Start()) {
			job, partitions = j, state.Partitions
		}
	}
	r.Lies(layoutsOf(p.topologies.Judge(job, partitions)))
}

func layoutsOf(judged []fit.Judgement) (all []report.Layout) {
	for i := range judged {
		j := &judged[i]
		l := report.Layout{Topology: j.Topology, Unit: j.Unit, Fewest: j.Fewest, Text: j.Words(), SplitSegments: j.Split}
		for k, name := range j.Names {
			l.Units = append(l.Units, report.Unit{Name: name, Nodes: j.Nodes[k]})
		}
		all = append(all, l)
	}
	return all
}
