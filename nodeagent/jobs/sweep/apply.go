package sweep

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// Applier carries out plans.
type Applier struct {
	// RunDir has the records. MappingDir is the one directory that lines are written in.
	RunDir     rundir.Dir
	MappingDir string
	Log        *slog.Logger
}

// Done is what was done.
type Done struct {
	Repairs  int
	Released map[string]int // lines by reason
}

// Apply carries out a plan and removes the marks. The caller holds the run
// directory's lock. Apply goes on after an error. If a line could not be changed, records
// and marks stay for the next time.
func (a Applier) Apply(ctx context.Context, p *Plan, marks []rundir.Summary, now time.Time) (Done, error) {
	done := Done{Released: make(map[string]int)}
	var failed error
	for _, e := range p.Edits {
		if ctx.Err() != nil {
			return done, failed
		}
		failed = errors.Join(failed, a.edit(e, &done))
	}
	if failed != nil {
		return done, failed
	}
	for _, j := range p.Moved { // its Epilog is to find the devices that it holds now
		failed = errors.Join(failed, a.RunDir.RewriteRecord(j.Key, *j.Now))
	}
	for _, j := range p.Dead {
		failed = errors.Join(failed, a.end(j, marks, now))
	}
	for _, m := range marks {
		failed = errors.Join(failed, a.RunDir.RemoveEnding(m))
	}
	return done, failed
}

// edit adds or removes one line. It never makes the directory.
func (a Applier) edit(e Edit, done *Done) error {
	if info, err := os.Stat(a.MappingDir); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // nobody reads it
	}
	m, change := dcgm.Mapping{Dir: a.MappingDir}, "removed"
	var err error
	if e.Add {
		change, err = "added", m.Add(e.Job, []string{e.Name})
	} else {
		err = m.Remove(e.Job, []string{e.Name})
	}
	if err != nil {
		return err
	}
	if e.Reason == "" {
		done.Repairs++
		a.Log.Info("job mapping repaired", "job", e.Job, "exporterID", e.Name, "line", change)
		return nil
	}
	done.Released[e.Reason]++
	a.Log.Info("GPU released", "job", e.Job, "exporterID", e.Name, "reason", e.Reason)
	return nil
}

// end leaves the ending of a job that has ended without an Epilog, or whose Epilog has left a
// mark, and removes its record.
func (a Applier) end(j Job, marks []rundir.Summary, now time.Time) error {
	s := rundir.Summary{Key: j.Key, Record: *j.Record, Ended: now.Unix()}
	if j.Run.Dead == liveness.Boot {
		s.Ended = j.Record.Written.Unix()
	}
	for _, m := range marks {
		if m.Record.Identity().Same(j.Record.Identity()) && m.Record.Run == j.Record.Run {
			s.Ended, s.ExitCode = m.Ended, m.ExitCode
		}
	}
	a.Log.Info("job has ended without its Epilog", "job", j.Record.JobID, "reason", j.Run.Dead)
	if err := a.RunDir.End(s); err != nil {
		return err
	}
	return a.RunDir.RemoveRecord(j.Key)
}
