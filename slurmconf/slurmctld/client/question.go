package client

import (
	"context"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
)

// Question is what is asked. Each part of the answer has a time of its own.
type Question struct {
	// Loaded asks when slurmctld last read its files, and scontrol for the topologies of these
	// names. The name "" is the only topology there is. slurmrestd shows no topologies.
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

// whole says that Slurm may need long for the answer.
func (q *Question) whole() bool { return q.Nodes || q.Jobs }

// missing is the part of the question that the answer does not have as new as wanted. Nodes are
// asked for again with jobs, after these: if a node is free after all jobs were read, none of
// them took the node.
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
