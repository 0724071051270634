package liveness

import (
	"maps"
	"slices"
	"time"
)

// Absence is since when something is missing, and in how many looks. Times are since
// the node's boot.
type Absence struct {
	Since time.Duration `json:"since"`
	Looks int           `json:"looks"`
}

// Look counts one more look that finds it missing.
func (a *Absence) Look(now time.Duration) {
	if a.Looks == 0 {
		a.Since = now
	}
	a.Looks++
}

// Late says whether it has been missing for the grace.
func (a *Absence) Late(now time.Duration) bool {
	return a.Looks >= minLooks && now-a.Since >= grace
}

// Saved is the absence as a state keeps it: with a count that soon stops changing.
func (a Absence) Saved() Absence { return Absence{a.Since, min(a.Looks, minLooks)} }

// Run is what was seen of one run of a job.
type Run struct {
	Verdict
	// Shown says that all lines of the run were seen in the mapping. Taken is since
	// when an Epilog that did not come to its end has taken them away.
	Shown bool
	Taken Absence

	contained map[string]bool // sources that have shown the lasting step
	seen      bool            // a step was seen
	missing   time.Duration   // since when those sources do not show the lasting step
	looks     int             // in how many looks they did not
	noProlog  Absence         // since when slurmd has no Prolog of it
}

// Contained says whether the run's lasting step was seen.
func (r *Run) Contained() bool { return len(r.contained) > 0 }

// PrologRuns forgets for how long the run was missing, because a Prolog of it has
// just written its record.
func (r *Run) PrologRuns() { r.missing, r.looks, r.noProlog = 0, 0, Absence{} }

// Saved is a run as the agent's state keeps it.
type Saved struct {
	Contained []string      `json:"contained,omitempty"`
	Shown     bool          `json:"shown,omitempty"`
	Missing   time.Duration `json:"missing,omitempty"`
	Looks     int           `json:"looks,omitempty"`
	Idle      Absence       `json:"idle,omitzero"`
	Taken     Absence       `json:"taken,omitzero"`
	Hidden    bool          `json:"hidden,omitempty"`
}

// Saved returns what a later agent must know of the run.
func (r *Run) Saved() Saved {
	return Saved{slices.Sorted(maps.Keys(r.contained)), r.Shown, r.missing, min(r.looks, minLooks), r.noProlog.Saved(), r.Taken, r.Hidden}
}

// Run returns the run that was saved.
func (s Saved) Run() Run {
	r := Run{Verdict: Verdict{Hidden: s.Hidden}, Shown: s.Shown, Taken: s.Taken, missing: s.Missing, looks: s.Looks, noProlog: s.Idle}
	for _, source := range s.Contained {
		r.containedBy(source)
	}
	return r
}

func (r *Run) containedBy(source string) {
	if r.contained == nil {
		r.contained = make(map[string]bool)
	}
	r.contained[source] = true
}
