package hook

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// job is the work of a call.
type job struct {
	*hook
	summaryDir string           // the site's own, if any
	ended      []rundir.Summary // of runs that this call has ended
}

// loadConfig reads how the site wants the hook.
func (h *hook) loadConfig() *rundir.HookConfig {
	c, err := h.runDir.ReadHookConfig()
	if err != nil {
		h.fail(rundir.CallConfig, "%v; the defaults are used for what cannot be read", err)
	}
	if c == nil {
		c = &rundir.HookConfig{MappingDir: dcgm.DefaultMappingDir}
	}
	h.set(func() { h.jobInfo, h.gate = c.JobInfo, c.Gate })
	if h.mapping == "" {
		h.set(func() { h.mapping = c.MappingDir })
	}
	if h.wait == 0 {
		h.wait = time.Duration(c.Wait)
	}
	if h.wait == 0 {
		h.wait = rundir.DefaultWait
	}
	return c
}

// work does what the call is for.
func (h *job) work(ctx context.Context) {
	if err := dcgm.CheckJobID(h.env("SLURM_JOB_ID")); err != nil {
		h.fail(rundir.CallEnvironment, "%v", err)
		return
	}
	if h.call.Hook == "epilog" {
		h.epilog(ctx)
	} else if h.needsProlog() {
		h.prolog(ctx)
	}
}

// needsProlog says whether a Prolog has anything to do: the job has GPUs, or an
// earlier run of the job left a record.
func (h *job) needsProlog() bool {
	if h.env.hasGPUs() {
		return true
	}
	_, old, err := h.runDir.FindRecord(h.env.identity())
	return old != nil || err != nil
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

func (h *job) prolog(ctx context.Context) {
	record := h.newRecord()
	err := h.locked(ctx, func() {
		h.sweep()
		h.drainReleases()
		h.label(record)
	})
	if err != nil {
		h.recordOnly(record, err)
		return
	}
	h.later(ctx, record)
}

// label writes the job's record, and then the job's id for each of its GPUs. If the
// record cannot be written there is no label, because the agent removes labels
// without a record.
func (h *job) label(record *rundir.Record) {
	key, old, err := h.runDir.FindRecord(h.env.identity())
	if err != nil {
		h.fail(rundir.CallRecord, "%v; the record is replaced", err)
	}
	m := h.mappingOf(record)
	if old != nil { // a run whose Epilog was lost may have held other GPUs
		h.replaceRun(key, old, record)
	}
	if err := h.runDir.WriteRecord(key, *record); err != nil {
		h.fail(rundir.CallRecord, "%v; its GPUs get no label", err)
		if old == nil {
			return
		}
		// The old record would give this run the GPUs of the old run.
		if err := errors.Join(m.Remove(record.JobID, union(old.GPUs, old.Leaving)), h.runDir.RemoveRecord(key)); err != nil {
			h.fail(rundir.CallMapping, "%v", err)
		}
		return
	}
	if err := errors.Join(m.Remove(record.JobID, record.Leaving), m.Add(record.JobID, record.GPUs)); err != nil {
		h.fail(rundir.CallMapping, "%v", err)
	}
}

// replaceRun ends the old record's run if it is another one. The new record names
// the GPUs that the old run leaves.
func (h *job) replaceRun(key string, old, record *rundir.Record) {
	if old.After(record.Run) || record.After(old.Run) {
		h.summarize(key, old, h.lostEnd(key, old, record.Run), "")
	}
	left := union(old.GPUs, old.Leaving)
	before := h.mappingOf(old)
	if before.Dir == h.mapping {
		record.Leaving = without(left, record.GPUs)
		return
	}
	if err := before.Remove(old.JobID, left); err != nil {
		h.fail(rundir.CallMapping, "%v", err)
	}
}

func (h *hook) mappingOf(record *rundir.Record) dcgm.Mapping {
	m := dcgm.Mapping{Dir: h.mapping}
	if record != nil && record.MappingDir != "" {
		m.Dir = record.MappingDir
	}
	return m
}

// epilog releases the job's GPUs. Only the node's next job waits for an Epilog, so
// epilog tidies up too.
func (h *job) epilog(ctx context.Context) {
	err := h.locked(ctx, func() {
		if exists(h.mapping) {
			h.sweep()
		}
		h.drainReleases()
		if err := h.release(h.mark(), h.env.endTime(), h.env.exitCode()); err != nil {
			h.leaveMark(rundir.CallMapping, err)
		}
		h.set(func() { h.released = true })
	})
	if err != nil {
		h.leaveMark(rundir.CallLock, err)
	}
	h.runDir.Tidy()
	h.mappingOf(nil).Tidy()
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

// mark is the mark of this run's end.
func (h *hook) mark() rundir.Release {
	return rundir.Release{JobIdentity: h.env.identity(), Run: h.env.run(), MappingDir: h.mapping}
}

// sweep removes labels from before the node's last boot.
func (h *job) sweep() {
	released, err := h.mappingOf(nil).Sweep(h.boot)
	if err != nil {
		h.fail(rundir.CallMapping, "release GPUs after a boot: %v", err)
	}
	if len(released) > 0 {
		h.say("first job since the node's boot: released GPUs %s of earlier jobs", strings.Join(released, ", "))
		h.restore()
	}
}

// drainReleases releases the runs whose Epilogs did not get the lock.
func (h *job) drainReleases() {
	marks, err := h.runDir.Releases().All()
	if err != nil {
		h.fail(rundir.CallRecord, "%v; remove marks that cannot be read", err)
	}
	for _, m := range marks {
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
		h.say("job %s: this Epilog is of run %s, and run %s holds the GPUs now: left alone", m.JobID, m.Run, record.Run)
		return nil
	}
	mapping := h.mappingOf(record)
	if record == nil && m.MappingDir != "" {
		mapping.Dir = m.MappingDir
	}
	var gpus []string
	if record != nil {
		gpus = union(record.GPUs, record.Leaving)
	} else if gpus, err = mapping.Holding(m.JobID); err != nil {
		return err
	}
	if err := mapping.Remove(m.JobID, gpus); err != nil {
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

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

func without(all, but []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(but, s) })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}
