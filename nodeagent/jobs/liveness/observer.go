// Package liveness decides whether a job still lives on this node. The one witness of a job that runs is the
// slurmstepd of a step, which names its job in its command line, wherever slurmd keeps the step;
// the answer is a verdict for each run. If nothing can be known of a job, the job lives on. The
// package never ends a job that is seen.
package liveness

import (
	"slices"
	"strconv"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// Job is a run to judge. OtherBoot says that its record was made in another boot.
type Job struct {
	Record    *rundir.Record
	Run       *Run
	OtherBoot bool
}

// Known is what an Observer must know after a restart of the agent.
type Known struct {
	// Init tells the PID namespace that has shown steps from others. An agent that sees another
	// one, such as its own container's, knows nothing.
	Init uint64 `json:"init,omitempty"`
	// Externs is since when a slurmd starts an external step for each job, by slurmd. Times are
	// since the boot.
	Externs map[string]time.Duration `json:"externs,omitempty"`
}

// Observer looks at what the node shows of its jobs.
type Observer struct {
	Known
	proc   string
	seen   processes
	sameID map[string]int // jobs by id
}

// NewObserver returns an observer of the node's slurmds. proc is the proc file system that
// shows them.
func NewObserver(proc string) *Observer { return &Observer{proc: proc} }

// Look looks once at what the node shows of the jobs, notes that in their runs and
// sets their verdicts. others are the ids of further jobs to look for. marks are of Epilogs
// that have begun. up is the time since boot.
func (o *Observer) Look(jobs []Job, others []string, marks []rundir.Summary, wall time.Time, up time.Duration) {
	o.seen = processes{}
	if len(jobs)+len(others) > 0 {
		o.seen = readProcesses(o.proc)
	}
	o.sameID = make(map[string]int, len(jobs))
	for _, j := range jobs {
		o.sameID[j.Record.JobID]++
	}
	for _, j := range jobs {
		if !j.OtherBoot {
			o.note(j, written(j.Record, wall, up))
		}
	}
	for _, j := range jobs {
		o.count(j, wall, up)
	}
	o.Decide(jobs, marks, wall, up)
}

// Decide sets the verdicts of the jobs by what the last look has shown.
func (o *Observer) Decide(jobs []Job, marks []rundir.Summary, wall time.Time, up time.Duration) {
	for _, j := range jobs {
		j.Run.Verdict = judge(o.factsOf(j, marks, wall, up))
	}
}

// Lives says whether a step is seen of a job, which may have no record.
func (o *Observer) Lives(job string) bool {
	_, seen := o.seen.steps[job]
	return seen
}

// note notes which steps are seen of a job whose Prolog ran at a time. If another job has the same id, of another
// slurmd of this host, nobody can tell whose step lives.
func (o *Observer) note(j Job, prolog time.Duration) {
	s := o.seen.steps[j.Record.JobID]
	if !s.extern && !s.batch || o.sameID[j.Record.JobID] > 1 {
		return
	}
	j.Run.Contained, o.Init = true, o.seen.init
	if !s.extern {
		return
	}
	// slurmd reads its configuration when it begins, so all jobs since then have such a step.
	since, slurmd := prolog, slurmdOf(j.Record)
	if o.seen.slurmd > 0 {
		since = min(since, o.seen.slurmd)
	}
	if known, is := o.Externs[slurmd]; is {
		since = min(since, known)
	} else if o.Externs == nil {
		o.Externs = make(map[string]time.Duration)
	}
	o.Externs[slurmd] = since
}

func slurmdOf(r *rundir.Record) string { return r.Cluster + "/" + r.Node }

// written is when a record was written, since the boot.
func written(r *rundir.Record, wall time.Time, up time.Duration) time.Duration {
	return up - wall.Sub(r.Written)
}

// count counts for how long no step of a job is seen that should be there.
func (o *Observer) count(j Job, wall time.Time, up time.Duration) {
	r, there := j.Run, o.Lives(j.Record.JobID)
	switch {
	case there || !o.seen.quiet && !r.Hidden:
		r.NoProlog = Absence{}
	case o.seen.quiet:
		r.NoProlog.Look(up)
	}
	if there || !o.shows(j, wall, up) {
		r.Missing = Absence{}
	} else {
		r.Missing.Look(up)
	}
}

// shows says whether a step of a job would be seen if the job lived: it was seen, or its slurmd
// starts an external step for each job.
func (o *Observer) shows(j Job, wall time.Time, up time.Duration) bool {
	since, externs := o.Externs[slurmdOf(j.Record)]
	return o.Init > 0 && o.seen.init == o.Init && (j.Run.Contained || externs && written(j.Record, wall, up) >= since)
}

func (o *Observer) factsOf(j Job, marks []rundir.Summary, wall time.Time, up time.Duration) facts {
	r := j.Run
	f := facts{otherBoot: j.OtherBoot, epilog: epilogBegun(j.Record, marks) || r.Taken.Late(up), seen: o.Lives(j.Record.JobID),
		shows: o.shows(j, wall, up), contained: r.Contained, missing: r.Missing.lasts(up), noProlog: r.NoProlog.Late(up), past: -time.Hour}
	if end, err := strconv.ParseInt(j.Record.EndTime, 10, 64); err == nil && end > 0 {
		f.past = wall.Sub(time.Unix(end, 0))
	}
	return f
}

// epilogBegun says whether an Epilog that did not get the lock has left a mark for
// this run.
func epilogBegun(r *rundir.Record, marks []rundir.Summary) bool {
	return slices.ContainsFunc(marks, func(m rundir.Summary) bool {
		return m.Record.Identity().Same(r.Identity()) && !r.After(m.Record.Run)
	})
}
