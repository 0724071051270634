package publisher

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// jobsAge is how old an answer of Slurm about running jobs may be that lets nodes follow their
// NVLink partitions.
const jobsAge = time.Minute

// running is what Slurm has said of running jobs.
type running struct {
	occupancy.View
	asks bool // Slurm can be asked
	now  time.Time
}

// letsMove reports whether the answer is new enough to let nodes move.
func (r *running) letsMove() bool { return !r.Asked.IsZero() && r.now.Before(r.Asked.Add(jobsAge)) }

// whyLook says why people look first at a change of NVLink partitions. It returns "" if the nodes
// follow the change by themselves. all are the changes that have lasted for long enough. bySlurm says that Slurm alone
// keeps the nodes from that.
func whyLook(p *publication.Cluster, in *gathered, r *placement.Repartition, all []*placement.Repartition) (why string, bySlurm bool) {
	if len(r.Unknown) > 0 {
		return fmt.Sprintf("nobody knows the present NVLink domain of %s in these blocks", hostlist.Compress(r.Unknown)), false
	}
	own := r.Moves()
	if twice := slices.DeleteFunc(slices.Clone(own), func(n string) bool { return in.recent[n] == 0 }); len(twice) > 0 { // the partition may flap
		return hostlist.Compress(twice) + " moved in the last hour already", false
	}
	if len(own) == 0 { // no node gets another place
		return "", false
	}
	moves, of := 0, len(in.prev.Plan.Places())
	for _, other := range all {
		moves += len(other.Moves())
	}
	if moves > len(own) && !allowed(p, moves, of) {
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

// lookAtJobs asks Slurm soon which jobs run, if NVLink partitions changed and nodes do not follow yet. If
// nodes wait for Slurm, the next pass comes with Slurm's next answer about jobs, or when the last one is stale.
func (l *loop) lookAtJobs(in *gathered, placed placed) {
	r, waits := &in.running, false
	for _, change := range placed.found.Settled {
		_, bySlurm := whyLook(l.pub, in, change, placed.found.Settled)
		waits = waits || bySlurm
	}
	l.waitsSince = nil
	if !r.asks || !waits && !placed.found.Divides {
		return
	}
	l.jobs.Soon(l.pub.Name)
	if !waits {
		return
	}
	asked := r.Asked
	if l.waitsSince = &asked; r.Fresh(r.now) {
		l.At(asked.Add(occupancy.Stale))
	}
}

// newJobs reports whether nodes wait for an answer of Slurm about jobs, and it is there.
func (l *loop) newJobs() bool {
	return l.waitsSince != nil && l.jobs.View(l.pub.Name).Asked.After(*l.waitsSince)
}
