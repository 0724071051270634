package hook

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// job is the work of a call.
type job struct {
	*hook
	ended bool // this call has ended a run
}

// locked does what needs the lock.
func (h *job) locked(ctx context.Context, do func()) error {
	before := time.Now()
	unlock, err := h.runDir.Lock(ctx, h.left())
	h.set(func() { h.call.LockNs += int64(time.Since(before)) })
	if err != nil {
		return err
	}
	defer unlock()
	do()
	return nil
}

// epilog releases the job's GPUs. Only the node's next job waits for an Epilog, so
// epilog also does what is left of other jobs.
func (h *job) epilog(ctx context.Context) {
	err := h.locked(ctx, func() {
		h.sweep(false)
		h.drainMarks(true, true)
		if err := h.release(h.mark()); err != nil {
			h.leaveMark(rundir.CallMapping, err)
		}
		h.set(func() { h.released = true })
	})
	if err != nil {
		h.leaveMark(rundir.CallLock, err)
	}
	h.prune()
}

// leaveMark leaves a mark for a run that could not be released.
func (h *job) leaveMark(word string, why error) {
	if err := h.runDir.End(h.mark()); err != nil {
		h.fail(word, "%v; %v; its GPUs keep the job's label", why, err)
		return
	}
	h.set(func() { h.released = true })
	h.fail(word, "%v; its GPUs keep the job's label until another job starts or ends on this node", why)
}

// sweep removes labels from before the node's last boot. mayMake allows to make a missing mapping directory.
func (h *job) sweep(mayMake bool) {
	released, err := h.labels.Sweep(h.boot, mayMake)
	if err != nil {
		h.fail(rundir.CallMapping, "release GPUs after a boot: %v", err)
	}
	if len(released) > 0 {
		h.say("first job since the node's boot: released GPUs %s of earlier jobs", strings.Join(released, ", "))
		h.restore()
	}
}

// restore writes the labels of this boot's jobs again. The mark of the boot may have been
// removed, or the disk was full when it was written.
func (h *job) restore() {
	records, _ := h.runDir.ReadRecords() // a broken record names no GPUs
	for _, r := range records {
		if r.BootID == h.boot {
			if err := h.labels.Set(r.JobID, r.GPUs); err != nil {
				h.fail(rundir.CallMapping, "label job %s again: %v", r.JobID, err)
			}
		}
	}
}

// drainMarks releases the runs whose Epilogs did not get the lock: runs of this job, of
// other jobs, or both.
func (h *job) drainMarks(own, others bool) {
	marks, err := h.runDir.Marks()
	if err != nil {
		h.fail(rundir.CallRecord, "%v; remove marks that cannot be read", err)
	}
	for _, m := range marks {
		if isOwn := m.Record.Identity().Same(h.env.identity()); isOwn && !own || !isOwn && !others {
			continue
		}
		err := h.release(m)
		if err == nil {
			err = h.runDir.RemoveEnding(m)
		}
		if err != nil {
			h.fail(rundir.CallMapping, "release job %s: %v", m.Record.JobID, err)
		}
	}
}

// release takes the job's id out of the files that the record of a mark's run names. Without
// a record all files are searched. A late release of an earlier run leaves the later
// run alone.
func (h *job) release(m rundir.Summary) error {
	job, run := m.Record.JobID, m.Record.Run
	key, record, err := h.runDir.FindRecord(m.Record.Identity())
	broken := err != nil
	if broken {
		h.fail(rundir.CallRecord, "%v; all files of the mapping are searched", err)
	}
	if record != nil && record.After(run) {
		h.say("job %s: this Epilog belongs to run %s and the record here to run %s: the GPUs of the record are left alone", job, run, record.Run)
		return nil
	}
	var gpus []string
	if record != nil {
		gpus = union(record.GPUs, record.Leaving)
	} else {
		held, err := h.labels.Held()
		if held.Files == nil && err != nil { // one bad file is no hindrance
			return err
		}
		gpus = held.Of(job)
	}
	if err := h.labels.Clear(job, gpus); err != nil {
		return err
	}
	if record != nil {
		if run.After(record.Run) { // the Epilog belongs to a later run
			m.Ended, m.ExitCode = h.lostEnd(record, run), ""
		}
		h.end(rundir.Summary{Key: key, Record: *record, Ended: m.Ended, ExitCode: m.ExitCode})
	}
	if record != nil || broken {
		return h.runDir.RemoveRecord(key)
	}
	return nil
}

// lostEnd is when a run ended whose Epilog was lost: if the node has booted since,
// when the run began, because the agent knows better when the run was last seen; else when
// the next run of the job began.
func (h *job) lostEnd(lost *rundir.Record, next rundir.Run) int64 {
	if !rundir.SameBoot(lost.BootID, h.boot) {
		return lost.Written.Unix()
	}
	now := time.Now()
	if at := next.Started(); at.Before(now) && at.After(lost.Started()) {
		return at.Unix()
	}
	return now.Unix()
}

// end leaves the ending of a run for the agent. The caller holds the lock.
func (h *job) end(s rundir.Summary) {
	if err := h.runDir.End(s); err != nil {
		h.fail(rundir.CallSummary, "%v; the job gets no summary", err)
	}
	h.ended = true
}

// prune removes old endings, which pile up where no agent runs.
func (h *job) prune() {
	if !h.ended {
		return
	}
	if err := h.runDir.PruneEndings(); err != nil {
		h.fail(rundir.CallSummary, "%v", err)
	}
}

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
