package nodeagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// sweep compares the mapping with the jobs that live, and makes up for what is
// wrong. It reports whether records were changed.
func (j *Jobs) sweep(ctx context.Context, now moment) (changed bool) {
	marks, err := rundir.ReadReleases(j.config.RunDir)
	j.say("marks of ended jobs", err)
	j.lookAtMappings()
	j.lookForLife(now, marks, j.strangers())
	plan := j.plan(now, marks)
	j.notePlan(&plan, now)
	j.counts.files(&plan)
	j.counts.sweeps++
	if plan.isEmpty() && len(marks) == 0 {
		return false
	}
	unlock, err := rundir.Lock(ctx, j.config.RunDir, j.config.LockWait)
	if err != nil {
		j.fail("lock", err)
		return false
	}
	defer unlock()
	// A hook may have worked meanwhile: all is looked at again.
	j.scan(now)
	marks, _ = rundir.ReadReleases(j.config.RunDir) // said above
	j.lookAtMappings()
	j.judge(now, marks)
	plan = j.plan(now, marks)
	err = j.apply(ctx, &plan, marks, now)
	j.fail("sweep", err)
	j.lookAtMappings()
	after := j.plan(now, nil)
	j.counts.files(&after)
	return true
}

// fail logs and counts what a sweep could not do.
func (j *Jobs) fail(about string, err error) {
	if err != nil {
		j.counts.sweepErrors++
	}
	j.say(about, err)
}

// strangers lists the jobs of lines that no record has.
func (j *Jobs) strangers() []string {
	known := make(map[string]bool, len(j.jobs))
	for _, b := range j.jobs {
		known[b.record.JobID] = true
	}
	var out []string
	for _, m := range j.mappings {
		for _, f := range m.files {
			for _, id := range f.lines {
				if !known[id] {
					known[id] = true
					out = append(out, id)
				}
			}
		}
	}
	return out
}

func (j *Jobs) plan(now moment, marks []rundir.Release) sweepPlan {
	broken := make(map[string]bool, len(j.broken))
	for key := range j.broken {
		broken[jobOfKey(key)] = true
	}
	return planSweep(sweepFacts{
		boot: j.boot, jobs: j.sorted(), broken: broken, marks: marks, mappings: j.mappings, dirOf: j.dirOf,
		lives: func(id string) bool {
			for _, s := range j.evidence.jobs[id] {
				if s.alive {
					return true
				}
			}
			return false
		},
		late: func(l mappingLine) bool { a := j.absent[l]; return a != nil && a.late(now.up) },
	})
}

// notePlan notes since when lines are nobody's and jobs lack theirs.
func (j *Jobs) notePlan(p *sweepPlan, now moment) {
	for line := range j.absent {
		if !p.nobodys[line] {
			delete(j.absent, line)
		}
	}
	for line := range p.nobodys {
		if j.absent[line] == nil {
			j.absent[line] = &absence{}
		}
		j.absent[line].look(now.up)
	}
	for _, b := range p.whole {
		b.life.shown, b.life.taken = true, absence{}
	}
	for _, b := range p.taken {
		b.life.taken.look(now.up)
	}
}

// apply does what a plan says, with the lock held. It goes on after an error.
func (j *Jobs) apply(ctx context.Context, p *sweepPlan, marks []rundir.Release, now moment) (failed error) {
	dirty := make(map[string]bool) // directories that could not be changed
	for _, e := range p.edits {
		if ctx.Err() != nil {
			return failed
		}
		if err := j.edit(&e); err != nil {
			dirty[e.dir] = true
			failed = errors.Join(failed, err)
		}
	}
	for _, b := range p.moved {
		if !dirty[j.dirOf(b)] {
			failed = errors.Join(failed, j.rewrite(b))
		}
	}
	for _, b := range p.dead {
		if !dirty[j.dirOf(b)] {
			failed = errors.Join(failed, j.bury(b, now))
		}
	}
	for _, m := range marks {
		if !dirty[cmp.Or(m.MappingDir, j.config.MappingDir)] {
			failed = errors.Join(failed, rundir.RemoveRelease(j.config.RunDir, m))
		}
	}
	if len(p.dead) > 0 {
		failed = errors.Join(failed, rundir.PruneSummaries(j.config.RunDir, j.config.SummaryDir))
	}
	return failed
}

// edit adds or removes one line. The directory is never made.
func (j *Jobs) edit(e *edit) error {
	if !isDir(e.dir) {
		return nil
	}
	m, change := dcgm.Mapping{Dir: e.dir}, "removed"
	var err error
	if e.add {
		change, err = "added", m.Add(e.job, []string{e.name})
	} else {
		err = m.Remove(e.job, []string{e.name})
	}
	if err != nil {
		return err
	}
	if e.reason == "" {
		j.counts.repairs++
		j.log.Info("job mapping repaired", "job", e.job, "exporterID", e.name, "line", change)
		return nil
	}
	j.counts.released[e.reason]++
	j.log.Info("GPU released", "job", e.job, "exporterID", e.name, "reason", e.reason)
	return nil
}

// rewrite has a job's record name the devices that the job holds by the inventory
// of now, for its Epilog. The record keeps its time.
func (j *Jobs) rewrite(b *job) error {
	r := b.record
	r.GPUs, r.Unresolved = b.names, !b.settled
	r.UUIDs = nil
	for i := range b.devices {
		if uuid := b.devices[i].entry.UUID; uuid != "" {
			r.UUIDs = append(r.UUIDs, uuid)
		}
	}
	if err := rundir.WriteRecord(j.config.RunDir, b.key, r); err != nil {
		return err
	}
	if err := os.Chtimes(j.recordPath(b.key), time.Time{}, r.Written); err != nil {
		return fmt.Errorf("rewrite job record: %w", err)
	}
	return nil
}

// bury leaves the summary of a job that has ended without an Epilog, and removes
// its record.
func (j *Jobs) bury(b *job, now moment) error {
	use, err := rundir.ReadUse(j.config.RunDir, b.key)
	if err != nil || use != nil && use.Run != b.record.Run {
		use = nil // said when it was read first
	}
	ended := now.wall
	if b.life.dead == releasedBoot {
		if ended = b.record.Written; use != nil {
			ended = use.Until
		}
	}
	s := rundir.Summary{Key: b.key, Record: b.record, Use: use, Ended: ended.Unix()}
	failed := rundir.WriteSummary(rundir.SummaryDir(j.config.RunDir), s)
	if j.config.SummaryDir != "" {
		failed = errors.Join(failed, rundir.WriteSummary(j.config.SummaryDir, s))
	}
	j.log.Info("job has ended without its Epilog", "job", b.record.JobID, "reason", b.life.dead)
	return errors.Join(failed, rundir.RemoveUse(j.config.RunDir, b.key), rundir.RemoveRecord(j.config.RunDir, b.key))
}

func (j *Jobs) recordPath(key string) string {
	return filepath.Join(j.config.RunDir, jobsFolder, key+".json")
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
