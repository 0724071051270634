package slurmctld

import (
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// State is what Slurm says of itself.
type State struct {
	// Read is when slurmctld last read its files, by this machine's clock: at its start or at
	// the last reconfigure that it did not refuse. It is zero if that is not known.
	Read time.Time
	// Release is slurmctld's, or that of slurmrestd before 26.05, which is not newer. 0: not known.
	Release slurmconf.Release
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
	// Reservation is the name of the reservation that has the node now.
	Reservation string
}
