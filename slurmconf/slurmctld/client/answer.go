package client

import (
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
)

// Answer is what Slurm said last. Nobody changes it. Each part is of the last question that asked
// for it and was answered.
type Answer struct {
	State slurmctld.State
	// Asked is when each part of State was asked for.
	Asked Asked
	// Err is why the last question was not answered, and Failures is how many were not since
	// Slurm answered last. Next is when Slurm is asked again after them, at the earliest.
	Err      error
	Failures int
	Next     time.Time
	// Took is how long the last answer about nodes or jobs took.
	Took time.Duration

	topologies []string // that were asked for
}

// Asked has the times at which parts of an answer were asked for. They are zero for a part that
// Slurm never answered.
type Asked struct{ Loaded, Nodes, Jobs, Reservations time.Time }

// add adds what Slurm said of a question.
func (a *Answer) add(q *Question, said *slurmctld.State, asked time.Time) {
	if q.Loaded || !said.Read.IsZero() {
		a.State.Read, a.Asked.Loaded = said.Read, asked
	}
	if said.Release != 0 {
		a.State.Release = said.Release
	}
	if q.Topologies != nil {
		a.State.Topologies, a.topologies = said.Topologies, q.Topologies
	}
	if q.Nodes {
		a.State.Nodes, a.Asked.Nodes = said.Nodes, asked
	}
	if q.Jobs {
		a.State.Jobs, a.State.Partitions, a.Asked.Jobs = said.Jobs, said.Partitions, asked
	}
	if q.Reservations {
		a.State.Reservations, a.Asked.Reservations = said.Reservations, asked
	}
}
