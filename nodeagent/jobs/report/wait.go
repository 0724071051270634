package report

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Wanted says which runs are looked for.
type Wanted struct {
	// ID is a job's id, an array's id, or an array's id and a task. All is for all of its runs.
	ID  string
	All bool
	// Alone says that no other job's summary is read: a spool that nodes share may be large.
	Alone bool
	// Wait is how long summaries that are missing are waited for.
	Wait time.Duration
}

// waitPause is the time between two looks for a job's summaries.
const waitPause = time.Second

// Find waits for summaries that are still missing, and returns the runs that are wanted.
func (s Source) Find(ctx context.Context, want Wanted, now func() time.Time) ([]Run, error) {
	var jobs []string
	if want.Alone && !strings.Contains(want.ID, "_") {
		jobs = []string{want.ID}
	}
	for end := now().Add(want.Wait); ; s.Skip = func(error) {} { // skipped files are named once
		all, err := s.Read(jobs...)
		if err != nil {
			return nil, err
		}
		runs := Of(all, want.ID, want.All)
		missing := slices.ContainsFunc(runs, func(r Run) bool { return !r.Complete() })
		if len(runs) > 0 && !missing || !now().Before(end) {
			return runs, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(waitPause, end.Sub(now()))):
		}
	}
}
