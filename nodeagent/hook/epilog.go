package hook

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// job is the work of a call.
type job struct {
	*hook
	summaryDir string           // the site's own, if any
	ended      []rundir.Summary // of runs that this call has ended
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
		if _, err := os.Stat(h.mapping); !errors.Is(err, fs.ErrNotExist) {
			h.sweep()
		}
		h.drainReleases(true, true)
		if err := h.release(h.mark(), h.env.endTime(), h.env.exitCode()); err != nil {
			h.leaveMark(rundir.CallMapping, err)
		}
		h.set(func() { h.released = true })
	})
	if err != nil {
		h.leaveMark(rundir.CallLock, err)
	}
	h.spool()
}

// leaveMark leaves a mark for a run that could not be released.
func (h *job) leaveMark(word string, why error) {
	if err := h.runDir.Releases().Write(h.mark()); err != nil {
		h.fail(word, "%v; %v; its GPUs keep the job's label", why, err)
		return
	}
	h.set(func() { h.released = true })
	h.fail(word, "%v; its GPUs keep the job's label until another job starts or ends on this node", why)
}

// sweep removes labels from before the node's last boot.
func (h *job) sweep() {
	released, err := h.labels().Sweep(h.boot)
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
			if err := h.labels().Add(r.JobID, r.GPUs); err != nil {
				h.fail(rundir.CallMapping, "label job %s again: %v", r.JobID, err)
			}
		}
	}
}

// drainReleases releases the runs whose Epilogs did not get the lock: runs of this job, of
// other jobs, or both.
func (h *job) drainReleases(own, others bool) {
	marks, err := h.runDir.Releases().All()
	if err != nil {
		h.fail(rundir.CallRecord, "%v; remove marks that cannot be read", err)
	}
	for _, m := range marks {
		if isOwn := m.Same(h.env.identity()); isOwn && !own || !isOwn && !others {
			continue
		}
		err := h.release(m, m.Written, "")
		if err == nil {
			err = h.runDir.Releases().Remove(m)
		}
		if err != nil {
			h.fail(rundir.CallMapping, "release job %s: %v", m.JobID, err)
		}
	}
}

// release takes the job's id out of the files that its record names. Without a
// record all files are searched. A late release of an earlier run leaves the later
// run alone.
func (h *job) release(m rundir.Release, ended time.Time, exit string) error {
	key, record, err := h.runDir.FindRecord(m.JobIdentity)
	broken := err != nil
	if broken {
		h.fail(rundir.CallRecord, "%v; all files of the mapping are searched", err)
	}
	if record != nil && record.After(m.Run) {
		h.say("job %s: this Epilog belongs to run %s and the record here to run %s: the GPUs of the record are left alone", m.JobID, m.Run, record.Run)
		return nil
	}
	var gpus []string
	if record != nil {
		gpus = union(record.GPUs, record.Leaving)
	} else if gpus, err = h.labels().Holding(m.JobID); err != nil {
		return err
	}
	if err := h.labels().Remove(m.JobID, gpus); err != nil {
		return err
	}
	if record != nil {
		if m.Run.After(record.Run) { // the Epilog belongs to a later run
			ended, exit = h.lostEnd(key, record, m.Run), ""
		}
		h.summarize(key, record, ended, exit)
	}
	if record != nil || broken {
		return h.runDir.RemoveRecord(key)
	}
	return nil
}

// lostEnd is when a run ended whose Epilog was lost: if the node has booted since,
// when the run was last seen; else when the next run of the job began.
func (h *job) lostEnd(key string, lost *rundir.Record, next rundir.Run) time.Time {
	if !rundir.SameBoot(lost.BootID, h.boot) {
		if use, _ := h.runDir.Uses().Of(key, lost); use != nil {
			return use.Until
		}
		return lost.Written
	}
	now := time.Now()
	if at := next.Started(); at.Before(now) && at.After(lost.Started()) {
		return at
	}
	return now
}

// summarize writes the summary of a run that has ended. The caller holds the lock.
func (h *job) summarize(key string, record *rundir.Record, ended time.Time, exit string) {
	use, err := h.runDir.Uses().Of(key, record)
	if err != nil {
		h.fail(rundir.CallSummary, "%v; the summary has no use of GPUs", err)
	}
	s := rundir.Summary{Key: key, Record: *record, Use: use, Ended: ended.Unix(), ExitCode: exit}
	if err := rundir.WriteSummary(h.runDir, s); err != nil {
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
			failed = errors.Join(failed, rundir.CopySummary(h.summaryDir, s))
		}
	}
	if err := errors.Join(failed, h.runDir.PruneSummaries(h.summaryDir)); err != nil {
		h.fail(rundir.CallSummary, "%v", err)
	}
}

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
