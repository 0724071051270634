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
func repartitioned(p *publication.Cluster, in *gathered, made *Rendered) (out []placement.Choice) {
	for i := range made.follows {
		r := &made.follows[i]
		if why, _ := whyLook(p, in, made, r); why != "" {
			out = append(out, placement.Choice{Decision: r.Decision(), Message: fmt.Sprintf("%s; %s; until it is approved the nodes stay in the blocks that they are published in", r, why)})
		}
	}
	return out
}

// whyLook says why people look first at a change of NVLink partitions. It returns "" if the nodes
// follow the change by themselves. bySlurm says that Slurm alone keeps them from that.
func whyLook(p *publication.Cluster, in *gathered, made *Rendered, r *placement.Repartition) (why string, bySlurm bool) {
	if len(r.Unknown) > 0 {
		return fmt.Sprintf("nobody knows the present NVLink domain of %s in these blocks", hostlist.Compress(r.Unknown)), false
	}
	if twice := slices.DeleteFunc(r.Moves(made.Plan), func(n string) bool { return !in.recent[n] }); len(twice) > 0 { // the partition may flap
		return fmt.Sprintf("%s moved in the last %s already", hostlist.Compress(twice), inWords(p.HoldWindow.Duration)), false
	}
	own, moves, of := len(r.Moves(made.Plan)), 0, len(in.prev.Plan.Places())
	if own == 0 { // no node gets another place
		return "", false
	}
	for i := range made.follows {
		moves += len(made.follows[i].Moves(made.Plan))
	}
	if moves > own && !allowed(p, moves, of) {
		return fmt.Sprintf("with other such changes, %d of %d nodes would change their block", moves, of), false
	}
	why = in.running.on(r)
	return why, why != ""
}

// on says why it is not certain that no job runs on a node of the change. It returns "" if Slurm says so.
func (r *running) on(change *placement.Repartition) string {
	if !r.asks {
		return "nobody knows whether jobs run there, because Slurm cannot be asked (slurm.url, slurm.scontrol)"
	}
	const unknown = "Slurm has not said lately whether jobs run there"
	if !r.Fresh(r.now) {
		return unknown
	}
	for i := range change.Parts {
		if slices.ContainsFunc(change.Parts[i].Nodes, func(n string) bool { return hasJob(r.Nodes[n].State) }) {
			return "jobs run on these blocks"
		}
	}
	if !r.letsMove() {
		return unknown
	}
	return ""
}

// hasJob reports whether Slurm's words for a node's state say that a job runs there, or is ending.
func hasJob(state string) bool {
	return slices.ContainsFunc([]string{"ALLOCATED", "MIXED", "COMPLETING"}, func(word string) bool { return strings.Contains(state, word) })
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
