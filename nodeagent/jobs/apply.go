package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// apply carries out a plan and removes the marks. The caller holds the run
// directory's lock. apply goes on after an error. If a line could not be changed, records
// and marks stay for the next time.
func (r *Registry) apply(ctx context.Context, p *plan, marks []rundir.Summary, now time.Time) (failed error) {
	for _, e := range p.Edits {
		if ctx.Err() != nil {
			return failed
		}
		failed = errors.Join(failed, r.edit(e))
	}
	if failed != nil {
		return failed
	}
	for _, j := range p.Moved { // its Epilog is to find the devices that it holds now
		failed = errors.Join(failed, r.config.RunDir.RewriteRecord(j.key, *j.now))
	}
	for _, j := range p.Dead {
		failed = errors.Join(failed, r.end(j, marks, now))
	}
	for _, m := range marks {
		failed = errors.Join(failed, r.config.RunDir.RemoveEnding(m))
	}
	return failed
}

// edit adds or removes one line. It does not make the directory: without a directory no plan has an edit.
func (r *Registry) edit(e lineEdit) error {
	change, do := "removed", r.config.Labels.Clear
	if e.Add {
		change, do = "added", r.config.Labels.Set
	}
	if err := do(e.Job, []string{e.Name}); err != nil {
		return err
	}
	if e.Reason == "" {
		r.series.agent.repairs.Inc()
		r.log.Info("job mapping repaired", "job", e.Job, "exporterID", e.Name, "line", change)
		return nil
	}
	r.series.agent.released.WithLabelValues(e.Reason).Inc()
	r.log.Info("GPU released", "job", e.Job, "exporterID", e.Name, "reason", e.Reason)
	return nil
}

// end leaves the ending of a job that has ended without an Epilog, or whose Epilog has left a
// mark, and removes its record.
func (r *Registry) end(j *job, marks []rundir.Summary, now time.Time) error {
	s := rundir.Summary{Key: j.key, Record: j.record, Ended: now.Unix()}
	if j.life.Dead == liveness.Boot {
		s.Ended = j.record.Written.Unix()
	}
	for _, m := range marks {
		if m.Record.Identity().Same(j.record.Identity()) && m.Record.Run == j.record.Run {
			s.Ended, s.ExitCode = m.Ended, m.ExitCode
		}
	}
	r.log.Info("job has ended without its Epilog", "job", j.record.JobID, "reason", j.life.Dead)
	if err := r.config.RunDir.End(s); err != nil {
		return err
	}
	return r.config.RunDir.RemoveRecord(j.key)
}
