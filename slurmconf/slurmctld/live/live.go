// Package live asks the running Slurm about its nodes: slurmrestd by HTTP, or scontrol.
//
// Each question is bounded in time and in the size of the answer. The package changes
// nothing in Slurm but for REST.Reconfigure.
package live

import (
	"context"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// The bounds of a question.
const (
	// timeout is for all requests of one question together, and more for each node: slurmrestd
	// takes a second and more for 10,000 nodes.
	timeout, timeoutNode = 5 * time.Second, time.Millisecond
	// maxBytes is the most that one answer may have. Slurm writes 3 KB for each node.
	maxBytes = 256 << 20
	// maxNodes is the most nodes that are read.
	maxNodes = 1 << 17
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
	Topologies []slurmconf.Topology
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
}

// Question is what is asked.
type Question struct {
	// Topologies are the names of those in the file, or empty for the only one there is.
	Topologies []string
	// Nodes is about how many nodes Slurm has. It gives the question more time.
	Nodes int
	// Brief leaves the nodes out of the answer: for 10,000 nodes they take seconds.
	Brief bool
}

// limit bounds the question in time.
func (q *Question) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, timeout+time.Duration(min(q.Nodes, maxNodes))*timeoutNode)
}

// Asker asks Slurm.
type Asker interface {
	Ask(ctx context.Context, q Question) (*State, error)
}
