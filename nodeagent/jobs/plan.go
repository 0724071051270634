package jobs

import (
	"maps"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// mapLine is one line of one file of the mapping directory.
type mapLine struct{ Name, Job string }

// lineEdit is a line to add to the mapping, or to remove from it.
type lineEdit struct {
	mapLine
	Add bool
	// Reason is why a line is released. It is empty for a repair.
	Reason string
}

// moved says that the record has other exporter's ids than the job's devices have now.
func (j *job) moved() bool {
	sorted := func(ids []string) []string { return slices.Compact(slices.Sorted(slices.Values(ids))) }
	return !slices.Equal(sorted(j.now.GPUs), sorted(j.record.GPUs))
}

// planFacts is what a plan is made of.
type planFacts struct {
	Boot string
	// Jobs are sorted by key.
	Jobs []*job
	// Broken are ids of jobs whose records cannot be read.
	Broken map[string]bool
	// Ended are ids of jobs whose Epilogs have left a mark.
	Ended map[string]bool
	// Alive are ids of jobs without a record that live.
	Alive map[string]bool
	// Orphans are the lines that belonged to no job before, and Up the time since boot.
	Orphans orphans
	Up      time.Duration
	Mapping dcgm.Held
}

// plan is what is to be done to the mapping and to the records. It is made of data alone, and applied under the
// run directory's lock.
type plan struct {
	Edits []lineEdit
	// Dead are jobs that have ended. Moved are jobs whose records name other devices
	// than they hold.
	Dead, Moved []*job
	// Whole are jobs that have all their lines. Taken are jobs whose lines an Epilog
	// has taken away that did not come to its end.
	Whole, Taken []*job
	// Nobodys are lines that belong to no job.
	Nobodys map[mapLine]bool
	// Held, Empty and Foreign count files: those with lines of jobs, those without a
	// line, and those with other lines.
	Held, Empty, Foreign int

	made map[string]bool // files that the edits make
}

// isEmpty says that there is nothing to do.
func (p *plan) isEmpty() bool { return len(p.Edits)+len(p.Dead)+len(p.Moved) == 0 }

// makePlan compares what the mapping has with what the jobs hold. Lines are added before
// others are removed.
func makePlan(f planFacts) plan {
	p := plan{Nobodys: make(map[mapLine]bool), made: make(map[string]bool)}
	wanted := make(map[mapLine]bool)
	byID := make(map[string][]*job, len(f.Jobs))
	for _, j := range f.Jobs {
		byID[j.record.JobID] = append(byID[j.record.JobID], j)
		switch {
		case j.life.Dead != "":
			p.Dead = append(p.Dead, j)
		case !j.life.Hidden:
			for _, name := range j.now.GPUs {
				wanted[mapLine{name, j.record.JobID}] = true
			}
			f.repair(j, &p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Mapping.Files)) {
		f.release(name, wanted, byID, &p)
	}
	return p
}

// repair adds the lines that a living job lacks. If no step of the job is seen, and
// its lines were there and were taken away as an Epilog does it, the lines stay away:
// the Epilog was killed before it came to the record. The directory never has more files
// than a node has devices, whatever the records say.
func (f *planFacts) repair(j *job, p *plan) {
	files := f.Mapping.Files
	if files == nil {
		return // nobody reads it
	}
	var missing []lineEdit
	certain := j.life.Proven || !j.life.Shown || j.moved() || j.record.Unresolved
	for _, name := range j.now.GPUs {
		file, there := files[name]
		if slices.Contains(file.Jobs, j.record.JobID) {
			continue
		}
		if !there && !p.made[name] {
			if len(files)+len(p.made) >= rundir.MaxDevices {
				continue
			}
			p.made[name] = true
		}
		certain = certain || !there
		missing = append(missing, lineEdit{mapLine: mapLine{name, j.record.JobID}, Add: true})
	}
	switch {
	case certain:
		p.Edits = append(p.Edits, missing...)
	case len(missing) > 0:
		p.Taken = append(p.Taken, j)
	}
	if len(missing) == 0 && len(j.now.GPUs) > 0 {
		p.Whole = append(p.Whole, j)
	}
	if j.moved() || j.record.Unresolved && !j.now.Unresolved {
		p.Moved = append(p.Moved, j)
	}
}

// release removes the lines of a file that no living job has.
func (f *planFacts) release(name string, wanted map[mapLine]bool, byID map[string][]*job, p *plan) {
	file := f.Mapping.Files[name]
	jobs := 0
	for _, id := range file.Jobs {
		line := mapLine{name, id}
		if wanted[line] || f.Broken[id] {
			jobs++
			continue
		}
		reason, now := f.reasonOf(line, byID[id])
		if reason == liveness.Orphan {
			p.Nobodys[line] = true
		}
		if now {
			p.Edits = append(p.Edits, lineEdit{mapLine: line, Reason: reason})
		}
	}
	switch {
	case file.Odd || jobs < len(file.Jobs):
		p.Foreign++
	case jobs > 0:
		p.Held++
	default:
		p.Empty++
	}
}

// reasonOf returns why a line is released, and whether it is released now. of are the
// jobs of its id.
func (f *planFacts) reasonOf(line mapLine, of []*job) (reason string, now bool) {
	for _, j := range of {
		switch {
		case j.life.Dead != "":
			return j.life.Dead, true
		case j.life.Hidden:
			return liveness.Ended, true
		case j.moved() && slices.Contains(j.record.GPUs, line.Name):
			return "", true // the device has another name now
		}
	}
	switch {
	case len(of) > 0:
	case f.Mapping.Boot != "" && f.Boot != "" && f.Mapping.Boot != f.Boot:
		return liveness.Boot, true
	case f.Ended[line.Job]:
		return liveness.Ended, true
	case f.Alive[line.Job]:
		return "", false
	}
	return liveness.Orphan, f.Orphans[line].Late(f.Up)
}

// orphans are the lines that belong to no job, and since when.
type orphans map[mapLine]liveness.Absence

// note counts one more look that finds these lines without a job.
func (o orphans) note(lines map[mapLine]bool, up time.Duration) {
	maps.DeleteFunc(o, func(l mapLine, _ liveness.Absence) bool { return !lines[l] })
	for l := range lines {
		a := o[l]
		a.Look(up)
		o[l] = a
	}
}
