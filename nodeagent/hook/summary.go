package hook

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// later does what can wait until the label is written.
func (h *job) later(ctx context.Context, record *rundir.Record) {
	h.spool()
	if h.jobInfo == nil {
		return
	}
	if err := h.ask(ctx, record); err != nil {
		h.fail(rundir.CallJobInfo, "%v; the record has no job name", err)
	}
}

// ask asks slurmctld about the job and writes the answer into the record.
func (h *job) ask(ctx context.Context, record *rundir.Record) error {
	select {
	case <-time.After(min(spread(record.NumNodes), h.left()/2)):
	case <-ctx.Done():
		return ctx.Err()
	}
	info := scontrol(*h.jobInfo)
	if info.Timeout == 0 {
		info.Timeout = rundir.Duration(rundir.DefaultJobInfoTimeout)
	}
	info.Timeout = rundir.Duration(max(min(time.Duration(info.Timeout), h.left()), time.Millisecond))
	facts, err := info.ask(ctx, record.JobID, h.env("SLURM_CONF"))
	if err != nil {
		return err
	}
	var failed error
	err = h.locked(ctx, func() {
		key, now, err := h.runDir.FindRecord(record.Identity())
		if err != nil || now == nil || now.Run != record.Run {
			failed = err // the job may have ended meanwhile
			return
		}
		now.ArrayJobID, now.ArrayTaskID, now.JobName = facts.ArrayJobID, facts.ArrayTaskID, facts.Name
		if now.Account == "" {
			now.Account = facts.Account
		}
		failed = h.runDir.WriteRecord(key, *now)
	})
	if err == nil {
		err = failed
	}
	return err
}

// spread returns how long to wait before slurmctld is asked. The nodes of one job
// ask at most a thousand times a second, and wait at most a second.
func spread(numNodes string) time.Duration {
	n, err := strconv.ParseUint(numNodes, 10, 32)
	if err != nil || n < 2 {
		return 0
	}
	return rand.N(min(time.Duration(n)*time.Millisecond, time.Second)) //nolint:gosec // no secret
}

// summarize writes the summary of a run that has ended. The caller holds the lock.
func (h *job) summarize(key string, record *rundir.Record, ended time.Time, exit string) {
	use, err := h.runDir.Uses().Of(key, record)
	if err != nil {
		h.fail(rundir.CallSummary, "%v; the summary has no use of GPUs", err)
	}
	s := rundir.Summary{Key: key, Record: *record, Use: use, Ended: ended.Unix(), ExitCode: exit}
	if err := rundir.WriteSummary(h.runDir.SummaryDir(), s); err != nil {
		h.fail(rundir.CallSummary, "%v", err)
		return // the agent will use it
	}
	h.ended = append(h.ended, s)
	if err := h.runDir.Uses().Remove(key); err != nil {
		h.fail(rundir.CallSummary, "%v", err)
	}
}

// spool copies the summaries into the site's own directory, and removes old ones.
func (h *job) spool() {
	if len(h.ended) == 0 {
		return
	}
	var failed error
	if h.summaryDir != "" {
		for _, s := range h.ended {
			failed = errors.Join(failed, rundir.WriteSummary(h.summaryDir, s))
		}
	}
	if err := errors.Join(failed, h.runDir.PruneSummaries(h.summaryDir)); err != nil {
		h.fail(rundir.CallSummary, "%v", err)
	}
}
