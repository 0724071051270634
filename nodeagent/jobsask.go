package nodeagent

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
)

const (
	// askEvery is about how long the node must show nothing of a job before Slurm is
	// asked, and how long until it is asked again: a job that has ended is to be
	// released within a minute. Nodes that begin together do not ask together.
	askEvery  = 30 * time.Second
	askSpread = 5 * time.Second
	// longestAskPause is the longest until a Slurm that does not answer is asked again.
	longestAskPause = 10 * time.Minute
)

// SlurmAsker says what Slurm knows of a job; slurmConf says which cluster's it is.
type SlurmAsker interface {
	AskState(ctx context.Context, job, slurmConf string) (dcgm.JobState, error)
}

// asking is what was asked about a run, and what was said.
type asking struct {
	// next is when to ask, zero for a job that is seen.
	next time.Duration
	// silent is how many questions in a row were not answered.
	silent int
	// over says that by Slurm's word the run has ended.
	over bool
}

// answer is what came of one question.
type answer struct {
	key   string
	of    dcgm.Record
	state dcgm.JobState
	err   error
}

// ask asks Slurm about the job that has waited longest of those of which the node
// shows nothing, one at a time. What Slurm says comes by j.answers.
func (j *Jobs) ask(ctx context.Context, now moment) {
	if j.config.Slurm == nil {
		return
	}
	var due *job
	for _, b := range j.jobs {
		a := &b.life.asking
		switch {
		case b.life.dead != "": // it is released by the next sweep that gets the lock
		case b.life.proven || b.life.hidden || b.record.SlurmConf == "":
			*a = asking{}
		case a.next == 0:
			a.next = now.up + askPause(0)
		case now.up >= a.next && (due == nil || a.next < due.life.asking.next):
			due = b
		}
	}
	if due == nil || j.asked {
		return
	}
	j.asked = true
	q := answer{key: due.key, of: due.record}
	go func() {
		q.state, q.err = j.config.Slurm.AskState(ctx, q.of.JobID, q.of.SlurmConf)
		j.answers <- q // has room for one, and there is one
	}()
}

// hear takes an answer. A run that is not the record's any more is none of it.
func (j *Jobs) hear(a answer) {
	j.asked = false
	j.say("question to Slurm", a.err)
	b := j.jobs[a.key]
	if b == nil || !sameRun(&b.record, &a.of) {
		return
	}
	l := &b.life.asking
	if a.err != nil {
		l.silent++
	} else {
		l.silent, l.over = 0, a.state.Ended(&a.of)
	}
	l.next = j.clock().up + askPause(l.silent)
}

// askPause is how long to wait after so many questions that were not answered.
func askPause(silent int) time.Duration {
	pause := min(askEvery<<min(silent, 10), longestAskPause)
	return pause - askSpread + rand.N(2*askSpread) //nolint:gosec // no secret
}
