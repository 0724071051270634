package liveness

import "time"

const (
	// grace is how long the steps of a job must be missing, and a line in the
	// mapping must belong to no job, before it is released.
	grace = 20 * time.Second
	// minLooks is how many looks must have found it so.
	minLooks = 2
	// overdueAfter is how long after its planned end a job that was never seen is
	// released: Slurm ends jobs late by OverTimeLimit and KillWait.
	overdueAfter = 5 * time.Minute
	// longestProlog is how long a job without its external step counts as in its
	// Prolog, if Prologs cannot be seen. The job has its labels again when the step
	// comes.
	longestProlog = 10 * time.Minute
	// buriedAfter is how long the record of a job is kept if no step was seen.
	buriedAfter = 24 * time.Hour
)

// Why the agent, and not the job's Epilog, releases GPUs.
const (
	Boot    = "boot"    // the node has booted since
	Ended   = "ended"   // the job's steps were there and are gone, or its Epilog has begun
	Overdue = "overdue" // the job was never seen, and its planned end is long past
	Orphan  = "orphan"  // the line has no record
)

// facts is what is known of one run of a job on this node.
type facts struct {
	// otherBoot says that the record was made in another boot.
	otherBoot bool
	// epilog says that the run's Epilog has begun.
	epilog bool
	// seen says that a step of the job lives.
	seen bool
	// shows says that a step of the job would be seen if the job lived.
	shows bool
	// contained says that a step was seen in this run that lives as long as the job: the external or the batch
	// step.
	contained bool
	// missing is for how long no step is seen that should be.
	missing time.Duration
	// noProlog says that slurmd has had no Prolog running for the grace.
	noProlog bool
	// past is how long ago the job's planned end was. It is negative before that, and
	// if the end is not known.
	past time.Duration
}

// Verdict is what becomes of a job.
type Verdict struct {
	// Dead says why the job has ended. It is empty for a job that may live.
	Dead string `json:"-"`
	// Proven says that a step of the job is seen to live.
	Proven bool `json:"-"`
	// Hidden says that the job may live, but that no step is visible where one should
	// be. Its GPUs get no label until a step appears.
	Hidden bool `json:"hidden,omitempty"`
}

// judge decides whether a job lives. If nothing can be known, the job lives on.
func judge(f facts) Verdict {
	switch {
	case f.otherBoot:
		return Verdict{Dead: Boot}
	case f.epilog:
		return Verdict{Dead: Ended}
	case f.seen:
		return Verdict{Proven: true}
	case !f.shows || f.missing < grace:
		return Verdict{}
	case f.contained:
		return Verdict{Dead: Ended}
	case f.past >= overdueAfter:
		return Verdict{Dead: Overdue}
	case f.missing >= buriedAfter:
		return Verdict{Dead: Ended}
	}
	return Verdict{Hidden: f.noProlog || f.missing >= longestProlog}
}
