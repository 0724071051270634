package nodeagent

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// absence is since when a line is nobody's, and how many looks found it so.
type absence struct {
	Since time.Duration `json:"since"`
	Looks int           `json:"looks"`
}

// look counts one more look that finds it so.
func (a *absence) look(now time.Duration) {
	if a.Looks == 0 {
		a.Since = now
	}
	a.Looks++
}

// late says whether it has been so for the grace.
func (a *absence) late(now time.Duration) bool {
	return a.Looks >= minLooks && now-a.Since >= grace
}

// kept is it as the state keeps it, which is to change seldom.
func (a absence) kept() absence { return absence{a.Since, min(a.Looks, minLooks)} }

// edit is one line to add to the mapping, or to remove from it.
type edit struct {
	mappingLine
	add bool
	// reason is why a line is released; empty for a repair.
	reason string
}

// sweepPlan is what is to be done to the mapping and to the records.
type sweepPlan struct {
	edits []edit
	// dead are jobs that have ended, moved those whose records name other devices
	// than they hold.
	dead, moved []*job
	// whole are the jobs that have all their lines, taken those whose lines an
	// Epilog has taken away that did not come to its end.
	whole, taken []*job
	// nobodys are the lines that no job has.
	nobodys map[mappingLine]bool
	// held, empty and foreign count the files: those with lines of jobs, those
	// without a line, and those with others.
	held, empty, foreign int
}

// isEmpty says that there is nothing to do.
func (p *sweepPlan) isEmpty() bool { return len(p.edits)+len(p.dead)+len(p.moved) == 0 }

// sweepFacts is what a plan is made of.
type sweepFacts struct {
	boot     string
	jobs     []*job
	broken   map[string]bool // ids of jobs whose records cannot be read
	marks    []rundir.Release
	mappings map[string]*mappingDir
	dirOf    func(*job) string
	// lives says that a job without a record is seen to live, late that a line was
	// nobody's for the grace.
	lives func(id string) bool
	late  func(mappingLine) bool
}

// planSweep compares what the mapping has with what the jobs hold.
func planSweep(f sweepFacts) sweepPlan {
	p := sweepPlan{nobodys: make(map[mappingLine]bool)}
	wanted := make(map[mappingLine]bool)
	byID := make(map[string][]*job, len(f.jobs))
	for _, b := range f.jobs {
		byID[b.record.JobID] = append(byID[b.record.JobID], b)
		if b.life.dead != "" {
			p.dead = append(p.dead, b)
			continue
		}
		if b.life.hidden {
			continue
		}
		for _, name := range b.names {
			wanted[mappingLine{f.dirOf(b), name, b.record.JobID}] = true
		}
	}
	for _, b := range f.jobs {
		if b.life.dead == "" && !b.life.hidden {
			f.repair(b, &p)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(f.mappings)) {
		m := f.mappings[dir]
		for _, name := range slices.Sorted(maps.Keys(m.files)) {
			f.release(m, dir, name, wanted, byID, &p)
		}
	}
	slices.SortStableFunc(p.edits, func(a, b edit) int { return cmp.Compare(addsFirst(a), addsFirst(b)) })
	return p
}

func addsFirst(e edit) int {
	if e.add {
		return 0
	}
	return 1
}

// repair adds the lines that a living job lacks. Where no step of it is seen, and
// its lines were there and have been taken away as an Epilog does it, they stay
// away: it was killed on the way.
func (f *sweepFacts) repair(b *job, p *sweepPlan) {
	dir := f.dirOf(b)
	m := f.mappings[dir]
	if m == nil || !m.there {
		return // nobody reads it
	}
	var missing []edit
	certain := b.life.proven || !b.life.shown || b.moved || b.record.Unresolved
	for _, name := range b.names {
		file, there := m.files[name]
		if slices.Contains(file.lines, b.record.JobID) {
			continue
		}
		certain = certain || !there
		missing = append(missing, edit{mappingLine: mappingLine{dir, name, b.record.JobID}, add: true})
	}
	switch {
	case certain:
		p.edits = append(p.edits, missing...)
	case len(missing) > 0:
		p.taken = append(p.taken, b)
	}
	if len(missing) == 0 && len(b.names) > 0 {
		p.whole = append(p.whole, b)
	}
	if b.moved || b.record.Unresolved && b.settled {
		p.moved = append(p.moved, b)
	}
}

// release removes the lines of a file that no living job has.
func (f *sweepFacts) release(m *mappingDir, dir, name string, wanted map[mappingLine]bool, byID map[string][]*job, p *sweepPlan) {
	file := m.files[name]
	jobs := 0
	for _, id := range file.lines {
		line := mappingLine{dir, name, id}
		if wanted[line] || f.broken[id] {
			jobs++
			continue
		}
		reason, now := f.reasonOf(m, line, byID[id])
		if reason == releasedOrphan {
			p.nobodys[line] = true
		}
		if now {
			p.edits = append(p.edits, edit{mappingLine: line, reason: reason})
		}
	}
	switch {
	case file.odd || jobs < len(file.lines):
		p.foreign++
	case jobs > 0:
		p.held++
	default:
		p.empty++
	}
}

// reasonOf returns why a line is released, and whether it is now.
func (f *sweepFacts) reasonOf(m *mappingDir, line mappingLine, of []*job) (reason string, now bool) {
	for _, b := range of {
		if f.dirOf(b) != line.dir {
			continue
		}
		if b.life.dead != "" {
			return b.life.dead, true
		}
		if b.life.hidden {
			return releasedEnded, true
		}
		if b.moved && slices.Contains(b.record.GPUs, line.name) {
			return "", true // with its device, to another name
		}
	}
	switch {
	case len(of) > 0:
	case m.boot != "" && f.boot != "" && m.boot != f.boot:
		return releasedBoot, true
	case slices.ContainsFunc(f.marks, func(r rundir.Release) bool { return r.JobID == line.job }):
		return releasedEnded, true
	case f.lives(line.job):
		return "", false
	}
	return releasedOrphan, f.late(line)
}

// String names a line in the log.
func (l mappingLine) String() string {
	return strings.Join([]string{l.dir, l.name}, "/") + " of job " + l.job
}
