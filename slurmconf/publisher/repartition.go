package publisher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/placement"
)

const (
	// jobsAge is how old an answer of Slurm about running jobs may be that lets nodes follow their
	// NVLink partitions.
	jobsAge = time.Minute
	// jobsSoon is how long the next pass waits for an answer that was asked for.
	jobsSoon = 10 * time.Second
)

// running is what Slurm has said of running jobs.
type running struct {
	occupancy.View
	asks bool // Slurm can be asked
	now  time.Time
}

// letsMove reports whether the answer is new enough to let nodes move.
func (r *running) letsMove() bool { return !r.Asked.IsZero() && r.now.Before(r.Asked.Add(jobsAge)) }

// repartitioned finds the changes of NVLink partitions that people look at first.
func repartitioned(p *publication.Cluster, in *gathered, made *Rendered) (out []decision) {
	for i := range made.follows {
		r := &made.follows[i]
		why, _ := whyLook(p, in, made, r)
		if policy := p.Policy(); !policy.ShortBlocks && p.BaseBlockSize == 0 { // see baseSizeChange
			for _, d := range placement.BaseChanges(in.prev.Plan, made.Plan) {
				why = strings.TrimPrefix(why+"; "+placement.BaseChangeText(&d, made.Plan, policy), "; ")
			}
		}
		if why != "" {
			out = append(out, decision{r.Decision(), fmt.Sprintf("%s; %s; until it is approved the nodes stay in the blocks that they are published in", r, why)})
		}
	}
	return out
}

// whyLook says why people look first at a change of NVLink partitions. It returns "" if the nodes
// follow the change by themselves. bySlurm says that Slurm alone keeps them from that.
func whyLook(p *publication.Cluster, in *gathered, made *Rendered, r *placement.Repartition) (why string, bySlurm bool) {
	policy := p.Policy()
	if why := r.Doubt(in.prev.Plan, made.Plan, &policy); why != "" {
		return why, false
	}
	moves := r.Moves(made.Plan)
	if len(moves) == 0 { // no node gets another place
		return "", false
	}
	if twice := slices.DeleteFunc(slices.Clone(moves), func(n string) bool { return !in.recent[n] }); len(twice) > 0 { // the partition may flap
		return fmt.Sprintf("%s moved in the last %s already", hostlist.Compress(twice), inWords(p.HoldWindow.Duration)), false
	}
	if n, of := in.movedWith(made, moves); n > len(moves) && !allowed(p, n, of) {
		return fmt.Sprintf("with other nodes that move or have moved in the last %s, %d of %d nodes would change their block", inWords(p.HoldWindow.Duration), n, of), false
	}
	why = in.running.across(r)
	return why, why != ""
}

// movedWith counts the nodes that change their block with all changes of partitions, with moves of one
// of them, and those that have moved lately.
func (g *gathered) movedWith(made *Rendered, moves []string) (n, of int) {
	nodes := slices.Clone(moves)
	for i := range made.follows {
		nodes = append(nodes, made.follows[i].Moves(made.Plan)...)
	}
	for name := range g.recent {
		nodes = append(nodes, name)
	}
	slices.Sort(nodes)
	return len(slices.Compact(nodes)), len(g.prev.Plan.Places())
}

// across says why it is not certain that no running job has nodes in two parts of a block. It returns
// "" if Slurm says so.
func (r *running) across(change *placement.Repartition) string {
	if !r.asks {
		return "nobody knows whether a job runs across the change, because Slurm cannot be asked (slurm.url, slurm.scontrol)"
	}
	const unknown = "Slurm has not said lately which jobs run, so nobody knows whether one runs across the change"
	if !r.Fresh(r.now) {
		return unknown
	}
	part, block := make(map[string]int), make(map[string]string) // by node
	for i := range change.Parts {
		for _, n := range change.Parts[i].Nodes {
			part[n], block[n] = i+1, change.Parts[i].Block
		}
	}
	shown := make(map[string]bool)
	for i := range r.Jobs {
		j := &r.Jobs[i]
		nodes, err := hostlist.Expand(j.Nodes)
		if err != nil {
			return fmt.Sprintf("the nodes of job %s cannot be read", j.ID)
		}
		parts := make(map[string]int) // by block
		for _, n := range nodes {
			at, is := part[n]
			if !is {
				continue
			}
			if old := parts[block[n]]; old != 0 && old != at {
				return fmt.Sprintf("job %s runs on nodes of several parts of block %s", j.ID, block[n])
			}
			parts[block[n]], shown[n] = at, true
		}
	}
	for i := range change.Parts {
		for _, n := range change.Parts[i].Nodes {
			if hasJob(r.Nodes[n].State) && !shown[n] {
				return fmt.Sprintf("Slurm says that node %s is busy, and does not show its job: with PrivateData=jobs the token must be an operator's", n)
			}
		}
	}
	if !r.letsMove() {
		return unknown
	}
	return ""
}

// hasJob reports whether Slurm's words for a node's state say that a job runs there.
func hasJob(state string) bool {
	return strings.Contains(state, "ALLOCATED") || strings.Contains(state, "MIXED")
}

// lookAtJobs asks Slurm soon which jobs run, if NVLink partitions changed and nodes do not follow yet.
func (l *loop) lookAtJobs(ctx context.Context, in *gathered, placed placed, wanted *Rendered) {
	r, waits := &in.running, false
	for i := range wanted.follows {
		_, bySlurm := whyLook(l.pub, in, wanted, &wanted.follows[i])
		waits = waits || bySlurm
	}
	if !r.asks || !waits && !placed.divides {
		return
	}
	l.jobs.Soon(ctx, l.pub.Name, jobsSoon)
	switch {
	case !waits:
	case r.Err == nil && !r.now.Before(r.Asked.Add(jobsAge/2)):
		l.At(r.now.Add(jobsSoon))
	default:
		l.At(r.now.Add(jobsAge))
	}
}
