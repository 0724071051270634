package nodeagent

import "time"

const (
	// grace is how long a job's lasting step must be missing, and a line in the
	// mapping be nobody's, before it is released.
	grace = 20 * time.Second
	// minLooks is how many looks must have found it so.
	minLooks = 2
	// overdueAfter is how long past its planned end a job counts that no source
	// shows: Slurm ends jobs late by OverTimeLimit and KillWait.
	overdueAfter = 5 * time.Minute
	// longestProlog is how long a job without its external step is taken to be in
	// its Prolog, where that cannot be seen. After it the job has its labels again
	// when the step comes.
	longestProlog = 10 * time.Minute
	// buriedAfter is how long the record of a job is kept that no step was seen of.
	buriedAfter = 24 * time.Hour
)

// Why a job's GPUs were released by the agent and not by its Epilog.
const (
	releasedBoot    = "boot"    // the node has booted since
	releasedEnded   = "ended"   // the job's lasting step was there and is gone, or its Epilog has begun
	releasedOverdue = "overdue" // no source shows it, and it was to end long ago
	releasedOrphan  = "orphan"  // a line of no record
)

// lifeFacts is what is known of one run of a job on this node.
type lifeFacts struct {
	// otherBoot says that the record is of another boot than this one.
	otherBoot bool
	// epilog says that the run's Epilog has begun.
	epilog bool
	// seen says that a step of the job lives.
	seen bool
	// remains says that something is left of a step of which it cannot be told
	// whether it lives.
	remains bool
	// readable says that a source could be read that has shown an external step
	// before, of whichever job.
	readable bool
	// contained says that the job's lasting step, the external or the batch step,
	// was seen in this run, in sources that can all be read now.
	contained bool
	// missing is for how long, in looks looks, the sources have shown nothing of it,
	// nor slurmd its Prolog or Epilog.
	missing time.Duration
	looks   int
	// noProlog says that for the grace slurmd had no Prolog of it running.
	noProlog bool
	// contain says that Slurm keeps an external step for each job.
	contain bool
	// past is how long ago the job was to end; negative before that, and where it
	// is not known.
	past time.Duration
}

// verdict is what becomes of a job.
type verdict struct {
	// dead says why the job has ended, empty for one that may live.
	dead string
	// proven says that a job that is not dead is seen to live.
	proven bool
	// hidden says that nothing is seen of a job that is not dead where it should be:
	// it has no labels until something is.
	hidden bool
}

// judge decides whether a job lives. A living one is never called dead; where
// nothing can be known it lives on.
func judge(f lifeFacts) verdict {
	switch {
	case f.otherBoot:
		return verdict{dead: releasedBoot}
	case f.epilog:
		return verdict{dead: releasedEnded}
	case f.seen:
		return verdict{proven: true}
	case f.contained && !f.remains && f.missing >= grace && f.looks >= minLooks:
		return verdict{dead: releasedEnded}
	case !f.readable || f.contained || f.remains || !f.contain:
		return verdict{}
	case f.missing < grace || f.looks < minLooks:
		return verdict{}
	case f.past >= overdueAfter:
		return verdict{dead: releasedOverdue}
	case f.missing >= buriedAfter:
		return verdict{dead: releasedEnded}
	}
	return verdict{hidden: f.noProlog || f.missing >= longestProlog}
}
