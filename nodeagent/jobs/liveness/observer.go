// Package liveness decides whether a job still lives on this node. The evidence is the sockets
// and control groups of the job's steps and the children of slurmd; the answer is a verdict for
// each run. If nothing can be known of a job, the job lives on. The package never ends a job
// that is seen.
package liveness

import (
	"slices"
	"strconv"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// prologAfter is how long a job may be without its lasting step before slurmd's
// children are searched for its Prolog or Epilog. Most of these take less.
const prologAfter = 10 * time.Second

// Source is a directory that has shown the external step of a job of a slurmd. If it
// shows none of another job of that slurmd, that job has none.
type Source struct{ Source, Node string }

// Job is a run to judge. OtherBoot says that its record was made in another boot.
type Job struct {
	Record    *rundir.Record
	Run       *Run
	OtherBoot bool
}

// Observer looks at what the node shows of its jobs.
type Observer struct {
	// Proven are the sources that have shown external steps, also to an earlier agent.
	Proven   []Source
	scanner  stepScanner
	proc     string
	pods     pods
	evidence evidence
	prologs  prologs        // none while no job is late
	sameID   map[string]int // jobs of this boot by id
}

// NewObserver returns an observer of the node's slurmds. spools are their
// SlurmdSpoolDirs. cgroupRoot is where control groups are mounted, proc is the proc file
// system that shows slurmd. Each may be missing.
func NewObserver(spools []string, cgroupRoot, proc string) *Observer {
	return &Observer{scanner: stepScanner{spools: spools, cgroupRoot: cgroupRoot}, proc: proc, pods: pods{proc: proc}}
}

// Look looks once at what the node shows of the jobs, notes that in their runs and
// sets their verdicts. others are the ids of further jobs to look for. marks are of Epilogs
// that have begun. up is the time since boot.
func (o *Observer) Look(jobs []Job, others []string, marks []rundir.Summary, wall time.Time, up time.Duration) {
	wanted, unseen, late := wantedJobs{}, len(others) > 0, false
	for _, id := range others {
		wanted.add(id, "")
	}
	o.sameID = make(map[string]int, len(jobs))
	starts := make(map[uint64]bool)
	for _, j := range jobs {
		if j.Record.InitStart > 0 && !j.OtherBoot {
			starts[j.Record.InitStart] = true
		}
		if !j.OtherBoot {
			o.sameID[j.Record.JobID]++
		}
		wanted.add(j.Record.JobID, j.Record.SLUID)
		unseen = unseen || !j.Run.seen
		late = late || isLate(j, up)
	}
	o.pods.look(starts)
	o.prologs = prologs{}
	if late {
		o.prologs = findPrologs(o.proc)
	}
	o.evidence = o.scanner.scan(wanted, unseen, up)
	for _, j := range jobs {
		o.note(j, up)
		o.pods.note(j, up)
	}
	o.Decide(jobs, marks, wall, up)
}

// Decide sets the verdicts of the jobs by what the last look has shown.
func (o *Observer) Decide(jobs []Job, marks []rundir.Summary, wall time.Time, up time.Duration) {
	for _, j := range jobs {
		j.Run.Verdict = judge(o.factsOf(j, marks, wall, up))
	}
}

// MayLive says whether a job without a record may live. Sockets name the job's id. A control group of Slurm 26.05 does
// not: without sockets, a living job whose id nobody knows may be any job.
func (o *Observer) MayLive(job string) bool {
	bySocket := slices.ContainsFunc(o.scanner.spools, func(dir string) bool { return o.evidence.readable[dir] })
	return o.evidence.nameless && !bySocket || slices.ContainsFunc(o.evidence.jobs[job], func(s sighting) bool { return s.alive })
}

// sightings returns what the last look has shown of a job. shared says that another
// cluster's job of the same id may have shown it.
func (o *Observer) sightings(r *rundir.Record) (all []sighting, shared bool) {
	for _, s := range o.evidence.jobs[r.JobID] {
		if s.node == "" || r.Node == "" || s.node == r.Node {
			all = append(all, s)
		}
	}
	return all, o.sameID[r.JobID] > 1
}

// note notes in a run what the last look has shown of it.
func (o *Observer) note(j Job, up time.Duration) {
	r := j.Run
	shown, shared := o.sightings(j.Record)
	for _, s := range shown {
		r.seen = r.seen || s.alive
		if s.lasting && s.alive && !shared {
			if !slices.Contains(r.Contained, s.source) {
				r.Contained = append(r.Contained, s.source)
			}
			if p := (Source{s.source, s.node}); s.extern && !slices.Contains(o.Proven, p) {
				o.Proven = append(o.Proven, p)
			}
		}
	}
	contained := len(r.Contained) > 0
	there := len(shown) > 0 || o.prologs.jobs[j.Record.JobID]
	switch {
	case there || !o.prologs.all && !r.Hidden:
		r.NoProlog = Absence{}
	case o.prologs.all:
		r.NoProlog.Look(up)
	}
	switch {
	case there || contained && !o.canSee(r) || !contained && !o.wouldSee(j.Record):
		r.Missing = Absence{}
	default:
		r.Missing.Look(up)
	}
}

// isLate says whether a job is given up soon unless slurmd runs a Prolog or Epilog of
// it.
func isLate(j Job, up time.Duration) bool {
	r := j.Run
	return (j.Record.Contain || len(r.Contained) > 0) && !r.Hidden && r.Missing.Looks > 0 && up-r.Missing.Since >= prologAfter && !j.OtherBoot
}

// canSee says whether all sources that have shown the run's lasting step can be read
// now.
func (o *Observer) canSee(r *Run) bool {
	return !slices.ContainsFunc(r.Contained, func(source string) bool { return !o.scanner.canTell(&o.evidence, source) })
}

// wouldSee says whether a source can be read that has shown the external step of a
// job of the same slurmd. A source that is gone, as with a slurmd's Pod, shows
// nothing: the steps of the next Pod are elsewhere.
func (o *Observer) wouldSee(r *rundir.Record) bool {
	return slices.ContainsFunc(o.Proven, func(p Source) bool {
		return (p.Node == "" || p.Node == r.Node) && o.evidence.readable[p.Source]
	})
}

func (o *Observer) factsOf(j Job, marks []rundir.Summary, wall time.Time, up time.Duration) facts {
	r := j.Run
	f := facts{
		otherBoot: j.OtherBoot, epilog: epilogBegun(j.Record, marks) || r.Taken.Late(up), contain: j.Record.Contain,
		contained: len(r.Contained) > 0 && o.canSee(r), missing: r.Missing.lasts(up), noProlog: r.NoProlog.Late(up),
		podGone: r.PodGone.lasts(up), readable: o.wouldSee(j.Record), past: -time.Hour,
	}
	if end, err := strconv.ParseInt(j.Record.EndTime, 10, 64); err == nil && end > 0 {
		f.past = wall.Sub(time.Unix(end, 0))
	}
	shown, _ := o.sightings(j.Record)
	for _, s := range shown {
		f.seen = f.seen || s.alive
		f.remains = f.remains || !s.alive
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
