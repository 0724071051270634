package liveness

import "time"

// Absence is since when something is missing, and in how many looks. The count stops at
// minLooks, so that a saved absence does not change. Times are since the node's boot.
type Absence struct {
	Since time.Duration `json:"since"`
	Looks int           `json:"looks"`
}

// Look counts one more look that finds it missing.
func (a *Absence) Look(now time.Duration) {
	if a.Looks == 0 {
		a.Since = now
	}
	a.Looks = min(a.Looks+1, minLooks)
}

// lasts is for how long it has been missing; 0 before enough looks have found it so.
func (a Absence) lasts(now time.Duration) time.Duration {
	if a.Looks < minLooks {
		return 0
	}
	return now - a.Since
}

// Late says whether it has been missing for the grace.
func (a Absence) Late(now time.Duration) bool { return a.lasts(now) >= grace }

// Run is what was seen of one run of a job. The agent's state keeps it as JSON.
type Run struct {
	Verdict
	// Shown says that all lines of the run were seen in the mapping. Taken is since
	// when an Epilog that did not come to its end has taken them away.
	Shown bool    `json:"shown,omitempty"`
	Taken Absence `json:"taken,omitzero"`
	// Contained says that the job's external or batch step was seen. Missing is since when
	// no step is seen.
	Contained bool    `json:"contained,omitempty"`
	Missing   Absence `json:"missing,omitzero"`
	// NoProlog is since when slurmd has run no Prolog.
	NoProlog Absence `json:"noProlog,omitzero"`
}

// PrologRuns forgets for how long the run was missing, because a Prolog of it has
// just written its record.
func (r *Run) PrologRuns() { r.Missing, r.NoProlog = Absence{}, Absence{} }
