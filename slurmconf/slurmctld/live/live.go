// Package live asks the running Slurm about its nodes and jobs: slurmrestd by HTTP, or scontrol.
//
// Each question is bounded in time and in the size of the answer. The package changes
// nothing in Slurm but for REST.Reconfigure.
package live

import (
	"context"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// The bounds of a question.
const (
	// timeout is for all requests of one question together, and more for each node: slurmrestd
	// takes a second and more for 10,000 nodes.
	timeout, timeoutNode = 5 * time.Second, time.Millisecond
)

// State is what Slurm says of itself.
type State struct {
	// Read is when slurmctld last read its files, by this machine's clock: at its start or at
	// the last reconfigure that it did not refuse. It is zero if that is not known.
	Read time.Time
	// Nodes are Slurm's nodes by name.
	Nodes map[string]Node
	// Topologies are what scontrol shows, each with the name that was asked for. slurmrestd
	// shows none.
	Topologies []topology.Topology
	// Jobs are the jobs that hold nodes, if these were asked for.
	Jobs []Job
	// Reservations are there if they were asked for. They may begin later.
	Reservations []Reservation
	// Partitions are the topologies that partitions name, if jobs were asked for. A partition
	// that names none has "".
	Partitions map[string]string
}

// Node is what Slurm says of a node.
type Node struct {
	// Topology is the node's own Topology= string, which goes before the file. It is empty if
	// the file alone says where the node is.
	Topology string
	// Registered says that slurmd has registered since slurmctld knows the node.
	Registered bool
	// Invalid says that Slurm refused the registration.
	Invalid bool
	// Off says that Slurm has powered the node down, or is about to.
	Off bool
	// State has Slurm's words for the node's state, such as IDLE+DRAIN. Gres is the node's Gres=.
	State, Gres string
	// Reason is why the node is drained or down.
	Reason string
	// LastBusy is when the node last became idle: when its last job ended, when it was resumed,
	// or when it registered. While jobs run it is when the node was last idle before them. It is
	// zero if Slurm does not say.
	LastBusy time.Time
	// Partitions are the node's partitions, with commas between them.
	Partitions string
	// CPUs and Memory, in MB, are what jobs can have of the node.
	CPUs, Memory int
	// Reservation is the name of the reservation that has the node now.
	Reservation string
}

// Question is what is asked.
type Question struct {
	// Topologies are the names of those in the file, or empty for the only one there is.
	Topologies []string
	// Nodes is about how many nodes Slurm has. It gives the question more time.
	Nodes int
	// Brief leaves the nodes out of the answer: for 10,000 nodes they take seconds.
	Brief bool
	// Reservations asks for reservations too.
	Reservations bool
	// Jobs asks for running jobs and for partitions too. Details asks what each job has of each
	// node: Job's GPUs, Whole and Shares. Slurm then writes 22 KB for each node of a job, all cores
	// among it: 18 s for 2,000 jobs on 10,000 nodes. scontrol always writes it.
	Jobs, Details bool
	// Job is the id of one job, which is asked for with details. Nothing else is asked for then.
	// The answer has the job if it holds nodes.
	Job string
}

// limit bounds the question in time.
func (q *Question) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	nodes := time.Duration(min(q.Nodes, maxThings))
	if q.Jobs {
		nodes *= 2 // there are at most about as many jobs as nodes
	}
	if q.Details || q.Job != "" {
		nodes *= 2
	}
	return context.WithTimeout(ctx, timeout+nodes*timeoutNode)
}

// Asker asks Slurm.
type Asker interface {
	Ask(ctx context.Context, q Question) (*State, error)
}
