// Package sweep compares the exporter's job mapping with the jobs of this node, and
// repairs the mapping. A plan is made of data alone. It is applied under the run
// directory's lock.
package sweep

import (
	"maps"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// Line is one line of one file of the mapping directory.
type Line struct{ Name, Job string }

// Edit is a line to add to the mapping, or to remove from it.
type Edit struct {
	Line
	Add bool
	// Reason is why a line is released. It is empty for a repair.
	Reason string
}

// Job is a record, and what the plan must know of its run.
type Job struct {
	Key string
	// Record is as it was read, and Now is as the inventory has the job's devices now.
	Record, Now *rundir.Record
	// Run is what was seen of the run.
	Run *liveness.Run
}

// moved says that the record has other exporter's ids than the job's devices have now.
func (j *Job) moved() bool {
	sorted := func(ids []string) []string { return slices.Compact(slices.Sorted(slices.Values(ids))) }
	return !slices.Equal(sorted(j.Now.GPUs), sorted(j.Record.GPUs))
}

// Facts is what a plan is made of.
type Facts struct {
	Boot string
	// Jobs are sorted by key.
	Jobs []Job
	// Broken are ids of jobs whose records cannot be read.
	Broken map[string]bool
	// Ended are ids of jobs whose Epilogs have left a mark.
	Ended map[string]bool
	// Alive are ids of jobs without a record that live.
	Alive map[string]bool
	// Orphans are the lines that belonged to no job before, and Up the time since boot.
	Orphans Orphans
	Up      time.Duration
	Mapping Mapping
}

// Plan is what is to be done to the mapping and to the records.
type Plan struct {
	Edits []Edit
	// Dead are jobs that have ended. Moved are jobs whose records name other devices
	// than they hold.
	Dead, Moved []Job
	// Whole are jobs that have all their lines. Taken are jobs whose lines an Epilog
	// has taken away that did not come to its end.
	Whole, Taken []Job
	// Nobodys are lines that belong to no job.
	Nobodys map[Line]bool
	// Held, Empty and Foreign count files: those with lines of jobs, those without a
	// line, and those with other lines.
	Held, Empty, Foreign int

	made map[string]bool // files that the edits make
}

// IsEmpty says that there is nothing to do.
func (p *Plan) IsEmpty() bool { return len(p.Edits)+len(p.Dead)+len(p.Moved) == 0 }

// Make compares what the mapping has with what the jobs hold. Lines are added before
// others are removed.
func Make(f Facts) Plan {
	p := Plan{Nobodys: make(map[Line]bool), made: make(map[string]bool)}
	wanted := make(map[Line]bool)
	byID := make(map[string][]Job, len(f.Jobs))
	for _, j := range f.Jobs {
		byID[j.Record.JobID] = append(byID[j.Record.JobID], j)
		switch {
		case j.Run.Dead != "":
			p.Dead = append(p.Dead, j)
		case !j.Run.Hidden:
			for _, name := range j.Now.GPUs {
				wanted[Line{name, j.Record.JobID}] = true
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
func (f *Facts) repair(j Job, p *Plan) {
	files := f.Mapping.Files
	if files == nil {
		return // nobody reads it
	}
	var missing []Edit
	certain := j.Run.Proven || !j.Run.Shown || j.moved() || j.Record.Unresolved
	for _, name := range j.Now.GPUs {
		file, there := files[name]
		if slices.Contains(file.Jobs, j.Record.JobID) {
			continue
		}
		if !there && !p.made[name] {
			if len(files)+len(p.made) >= rundir.MaxDevices {
				continue
			}
			p.made[name] = true
		}
		certain = certain || !there
		missing = append(missing, Edit{Line: Line{name, j.Record.JobID}, Add: true})
	}
	switch {
	case certain:
		p.Edits = append(p.Edits, missing...)
	case len(missing) > 0:
		p.Taken = append(p.Taken, j)
	}
	if len(missing) == 0 && len(j.Now.GPUs) > 0 {
		p.Whole = append(p.Whole, j)
	}
	if j.moved() || j.Record.Unresolved && !j.Now.Unresolved {
		p.Moved = append(p.Moved, j)
	}
}

// release removes the lines of a file that no living job has.
func (f *Facts) release(name string, wanted map[Line]bool, byID map[string][]Job, p *Plan) {
	file := f.Mapping.Files[name]
	jobs := 0
	for _, id := range file.Jobs {
		line := Line{name, id}
		if wanted[line] || f.Broken[id] {
			jobs++
			continue
		}
		reason, now := f.reasonOf(line, byID[id])
		if reason == liveness.Orphan {
			p.Nobodys[line] = true
		}
		if now {
			p.Edits = append(p.Edits, Edit{Line: line, Reason: reason})
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
func (f *Facts) reasonOf(line Line, of []Job) (reason string, now bool) {
	for _, j := range of {
		switch {
		case j.Run.Dead != "":
			return j.Run.Dead, true
		case j.Run.Hidden:
			return liveness.Ended, true
		case j.moved() && slices.Contains(j.Record.GPUs, line.Name):
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

// Orphans are the lines that belong to no job, and since when.
type Orphans map[Line]liveness.Absence

// Note counts one more look that finds these lines without a job.
func (o Orphans) Note(lines map[Line]bool, up time.Duration) {
	maps.DeleteFunc(o, func(l Line, _ liveness.Absence) bool { return !lines[l] })
	for l := range lines {
		a := o[l]
		a.Look(up)
		o[l] = a
	}
}
