package client

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
)

// Question is what is asked. Each part of the answer has a time of its own.
type Question struct {
	// Loaded asks when slurmctld last read its files, and which release it is. scontrol then shows the
	// Topologies of these names too. The name "" is the only topology there is. slurmrestd shows none.
	Loaded     bool
	Topologies []string
	// Nodes asks for all nodes: for 10,000 nodes it takes seconds.
	Nodes bool
	// Jobs asks for running jobs and for partitions. Details asks what each job has of each
	// node: Job's GPUs, Whole and Shares. Slurm then writes 22 KB for each node of a job, all cores
	// among it: 18 s for 2,000 jobs on 10,000 nodes. scontrol always writes it.
	Jobs, Details bool
	// Reservations asks for reservations of now and of later.
	Reservations bool
	// Job is the id of one job, which is asked for with details. Nothing else is asked for then.
	// The answer has the job if it holds nodes.
	Job string
}

// The bounds of a question.
const (
	// timeout is for all requests of one question together, and more for each node: slurmrestd
	// takes a second and more for 10,000 nodes.
	timeout, timeoutNode = 5 * time.Second, time.Millisecond
	// leastNodes is how many nodes Slurm is taken to have at least: a busy one may be slow with few.
	leastNodes = 20_000
)

// limit bounds the question to a Slurm of so many nodes in time.
func (q *Question) limit(ctx context.Context, nodes int) (context.Context, context.CancelFunc) {
	more := time.Duration(min(nodes, slurmctld.MaxThings))
	if q.Jobs {
		more *= 2 // there are at most about as many jobs as nodes
	}
	if q.Details || q.Job != "" {
		more *= 2
	}
	return context.WithTimeout(ctx, timeout+more*timeoutNode)
}

// ask asks for the parts of the question that Slurm writes as JSON, one after another, and adds the
// answers to the state. show asks for all things of a name, such as nodes, or for the job of an id.
func (q *Question) ask(state *slurmctld.State, show func(read func(in io.Reader) error, what ...string) error) (err error) {
	part := func(wanted bool, what string, read func(in io.Reader) error) {
		if wanted && err == nil {
			err = show(read, what)
		}
	}
	readJobs := func(in io.Reader) (err error) { state.Jobs, err = slurmctld.ReadJobs(in); return err }
	if q.Job != "" {
		return show(readJobs, "job", q.Job)
	}
	part(q.Jobs, "partitions", func(in io.Reader) (err error) { state.Partitions, err = slurmctld.ReadPartitions(in); return err })
	part(q.Jobs, "jobs", readJobs)
	part(q.Reservations, "reservations", func(in io.Reader) (err error) { state.Reservations, err = slurmctld.ReadReservations(in); return err })
	// Nodes come last: if a node is free after all jobs were read, none of them took the node.
	part(q.Nodes, "nodes", func(in io.Reader) (err error) { state.Nodes, err = slurmctld.ReadNodes(in); return err })
	return err
}

// whole says that Slurm may need long for the answer.
func (q *Question) whole() bool { return q.Nodes || q.Jobs }

// missing is the part of the question that the answer does not have as new as wanted. Nodes are
// asked for again with jobs, as ask does.
func (q *Question) missing(a *Answer, since time.Time) Question {
	m := *q
	m.Loaded = q.Loaded && (a.Asked.Loaded.Before(since) || q.Topologies != nil && !slices.Equal(q.Topologies, a.topologies))
	m.Jobs = q.Jobs && a.Asked.Jobs.Before(since)
	m.Nodes = q.Nodes && (m.Jobs || a.Asked.Nodes.Before(since))
	m.Reservations = q.Reservations && a.Asked.Reservations.Before(since)
	if m.Details = q.Details && m.Jobs; !m.Loaded {
		m.Topologies = nil
	}
	return m
}

// nothing says that the question asks for nothing.
func (q *Question) nothing() bool { return !q.Loaded && !q.Nodes && !q.Jobs && !q.Reservations }
