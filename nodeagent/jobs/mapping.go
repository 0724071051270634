package jobs

import (
	"context"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// sweep compares the mapping with the jobs that live, and repairs the mapping. It
// says whether records were changed.
func (r *Registry) sweep(ctx context.Context, now moment) (changed bool) {
	marks, err := r.config.RunDir.Marks()
	r.log.Note("marks of ended jobs", err)
	r.readMapping()
	r.life.Look(r.records.lives(), r.unrecorded(), marks, now.wall, now.up)
	plan := r.plan(marks, now)
	r.notePlan(&plan, now)
	r.setFiles(&plan)
	if plan.isEmpty() && len(marks) == 0 {
		return false
	}
	unlock, err := r.config.RunDir.Lock(ctx, r.config.LockWait)
	r.failed("lock", err)
	if err != nil {
		return false
	}
	defer unlock()
	// A hook may have changed something before the lock was free: all is read again.
	r.scan(now)
	marks, _ = r.config.RunDir.Marks() // its error was logged above
	r.readMapping()
	r.life.Decide(r.records.lives(), marks, now.wall, now.up)
	plan = r.plan(marks, now)
	r.failed("sweep", r.apply(ctx, &plan, marks, now.wall))
	r.readMapping()
	after := r.plan(nil, now)
	r.setFiles(&after)
	return true
}

// setFiles counts the files of the mapping. Without a mapping there is no such series, by
// which alerts know that the exporter is not to name jobs.
func (r *Registry) setFiles(p *plan) {
	if r.config.Labels != (dcgm.None{}) {
		r.series.agent.setFiles(p)
	}
}

// failed counts and logs what a sweep could not do.
func (r *Registry) failed(about string, err error) {
	if err != nil {
		r.series.agent.sweepErrors.Inc()
	}
	r.log.Note(about, err)
}

func (r *Registry) plan(marks []rundir.Summary, now moment) plan {
	f := planFacts{Boot: r.records.boot, Broken: make(map[string]bool), Ended: make(map[string]bool), Alive: make(map[string]bool),
		Orphans: r.orphans, Up: now.up, Mapping: r.mapping, Jobs: r.records.sorted()}
	for key := range r.records.broken {
		f.Broken[rundir.JobOfKey(key)] = true
	}
	for _, m := range marks {
		f.Ended[m.Record.JobID] = true
	}
	for _, id := range r.unrecorded() {
		f.Alive[id] = r.life.Lives(id)
	}
	return makePlan(f)
}

// notePlan notes since when lines belong to no job, and since when jobs lack theirs.
func (r *Registry) notePlan(p *plan, now moment) {
	r.orphans.note(p.Nobodys, now.up)
	for _, j := range p.Whole {
		j.life.Shown, j.life.Taken = true, liveness.Absence{}
	}
	for _, j := range p.Taken {
		j.life.Taken.Look(now.up)
	}
}

// unrecorded lists the jobs of lines that no record has.
func (r *Registry) unrecorded() []string {
	known := r.records.ids()
	var out []string
	for _, f := range r.mapping.Files {
		for _, id := range f.Jobs {
			if known[id] == 0 {
				known[id]++
				out = append(out, id)
			}
		}
	}
	return out
}

// readMapping reads the configured labels, and no other: a record must not choose where the agent
// writes.
func (r *Registry) readMapping() {
	var err error
	r.mapping, err = r.config.Labels.Held()
	r.log.Note("job mapping", err)
	r.keepInventory()
}

// keepInventory leaves the inventory where the hook finds it after a boot.
func (r *Registry) keepInventory() {
	inventory := &r.records.inventory
	if r.mapping.Files == nil || inventory.of == nil || isSame(inventory.file, r.schedule.kept) {
		return
	}
	err := rundir.KeepInventory(r.config.Kept, *inventory.of)
	if err == nil {
		r.schedule.kept = inventory.file
	}
	r.log.Note("copy of the inventory", err)
}
