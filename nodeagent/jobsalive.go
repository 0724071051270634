package nodeagent

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// prologAfter is how long a job may be without its lasting step before it is
// looked whether its Prolog or Epilog runs, which most do for less.
const prologAfter = 10 * time.Second

// provenSource is a source that has shown the external step of a job of a slurmd:
// where it shows none of another's, there is none.
type provenSource struct{ Source, Node string }

func (p provenSource) compare(q provenSource) int {
	return cmp.Or(strings.Compare(p.Source, q.Source), strings.Compare(p.Node, q.Node))
}

// lookForLife looks at what the node shows of its jobs, and judges them. others
// are the ids of further jobs to look for.
func (j *Jobs) lookForLife(now moment, marks []rundir.Release, others []string) {
	ids, unseen, late := slices.Clone(others), len(others) > 0, false
	j.sameID = make(map[string]int, len(j.jobs))
	for _, b := range j.jobs {
		if j.ofBoot(&b.record) {
			j.sameID[b.record.JobID]++
		}
		ids = append(ids, b.record.JobID)
		unseen = unseen || !b.life.seen
		late = late || j.isLate(b, now)
	}
	j.prologs = prologs{}
	if late {
		j.witness.hurry()
		j.prologs = lookForPrologs(j.config.Proc)
	}
	slices.Sort(ids)
	j.evidence = j.witness.look(slices.Compact(ids), unseen, now.up)
	for _, b := range j.jobs {
		j.examine(b, now)
	}
	j.judge(now, marks)
}

// shows returns what the last look has shown of a job, and whether that can be
// another's as well: of another cluster's job of the same id.
func (j *Jobs) shows(b *job) (of []sighting, shared bool) {
	for _, s := range j.evidence.jobs[b.record.JobID] {
		if s.node == "" || b.record.Node == "" || s.node == b.record.Node {
			of = append(of, s)
		}
	}
	return of, j.sameID[b.record.JobID] > 1
}

// examine notes what the last look has shown of a job.
func (j *Jobs) examine(b *job, now moment) {
	l := &b.life
	shown, shared := j.shows(b)
	there := false
	for _, s := range shown {
		there = true
		l.seen = l.seen || s.alive
		if s.lasting && s.alive && !shared {
			l.containedBy(s.source)
			if s.extern {
				j.proven[provenSource{s.source, s.node}] = true
			}
		}
	}
	there = there || j.prologs.jobs[b.record.JobID]
	switch {
	case there || !j.prologs.all && !l.hidden:
		l.idle = absence{}
	case j.prologs.all:
		l.idle.look(now.up)
	}
	switch {
	case there || len(l.contained) > 0 && !j.canSee(l) || len(l.contained) == 0 && !j.wouldSee(b):
		l.missing, l.looks = 0, 0
	case l.looks == 0:
		l.missing, l.looks = now.up, 1
	default:
		l.looks++
	}
}

// isLate says whether a job is to be given up soon unless slurmd runs something of
// it.
func (j *Jobs) isLate(b *job, now moment) bool {
	l := &b.life
	return (b.record.Contain || len(l.contained) > 0) && !l.hidden && l.looks > 0 && now.up-l.missing >= prologAfter && j.ofBoot(&b.record)
}

// canSee says whether all sources that have shown the lasting step can be read
// now.
func (j *Jobs) canSee(l *life) bool {
	for source := range l.contained {
		if !j.witness.has(&j.evidence, source) {
			return false
		}
	}
	return true
}

// judge decides of all jobs whether they live.
func (j *Jobs) judge(now moment, marks []rundir.Release) {
	for _, b := range j.jobs {
		b.life.verdict = judge(j.factsOf(b, now, marks))
	}
}

func (j *Jobs) factsOf(b *job, now moment, marks []rundir.Release) lifeFacts {
	l := &b.life
	f := lifeFacts{
		otherBoot: !j.ofBoot(&b.record), epilog: epilogBegun(&b.record, marks) || l.taken.late(now.up), contain: b.record.Contain,
		contained: len(l.contained) > 0 && j.canSee(l), looks: l.looks, noProlog: l.idle.late(now.up),
	}
	if l.looks > 0 {
		f.missing = now.up - l.missing
	}
	if end, ok := seconds(b.record.EndTime); ok {
		f.past = now.wall.Sub(end)
	} else {
		f.past = -time.Hour
	}
	shown, _ := j.shows(b)
	for _, s := range shown {
		f.seen = f.seen || s.alive
		f.remains = f.remains || !s.alive
	}
	f.readable = j.wouldSee(b)
	return f
}

// wouldSee says whether a source can be read that has shown the external step of a
// job of the same slurmd. One that is gone, as with a slurmd's pod, would not: the
// next pod's steps are elsewhere.
func (j *Jobs) wouldSee(b *job) bool {
	for p := range j.proven {
		if (p.Node == "" || p.Node == b.record.Node) && j.evidence.readable[p.Source] {
			return true
		}
	}
	return false
}

// epilogBegun says whether an Epilog that did not get the lock has left a mark for
// this run.
func epilogBegun(r *rundir.Record, marks []rundir.Release) bool {
	return slices.ContainsFunc(marks, func(m rundir.Release) bool {
		return m.Same(r.Identity()) && !r.After(m.Run)
	})
}
