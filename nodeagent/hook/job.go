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

// settle finds out how the site wants it.
func (h *hook) settle() {
	c, err := rundir.ReadHookConfig(h.runDir)
	if err != nil {
		h.fail(rundir.CallConfig, "%v; the defaults are used for what cannot be read", err)
	}
	if c == nil {
		c = &rundir.HookConfig{MappingDir: dcgm.DefaultMappingDir}
	}
	h.summaryDir = c.SummaryDir
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
}

// work does what the call is for.
func (h *hook) work(ctx context.Context) {
	if err := dcgm.CheckJobID(h.env("SLURM_JOB_ID")); err != nil {
		h.fail(rundir.CallEnvironment, "%v", err)
		return
	}
	if h.call.Hook == "epilog" {
		h.epilog(ctx)
	} else if h.concerned() {
		h.prolog(ctx)
	}
}

// concerned says whether a Prolog has anything to do: for GPUs, or for what an
// earlier run of the job has left.
func (h *hook) concerned() bool {
	if h.hasGPUs() {
		return true
	}
	_, old, err := rundir.FindRecord(h.runDir, h.identity())
	return old != nil || err != nil
}

// locked does what needs the lock, after what others have left to do.
func (h *hook) locked(ctx context.Context, do func()) error {
	before := time.Now()
	unlock, err := rundir.Lock(ctx, h.runDir, h.left())
	h.set(func() { h.call.LockNs += int64(time.Since(before)) })
	if err != nil {
		return err
	}
	defer unlock()
	do()
	return nil
}

// hasGPUs says whether Slurm has given the job GPUs of this node.
func (h *hook) hasGPUs() bool {
	return h.env("SLURM_JOB_GPUS") != "" || holdsUUID(h.env("CUDA_VISIBLE_DEVICES"))
}

func (h *hook) prolog(ctx context.Context) {
	record := h.newRecord()
	err := h.locked(ctx, func() {
		h.sweep()
		h.makeUp()
		h.hold(record)
	})
	if err != nil {
		h.promise(record, err)
		return
	}
	h.later(ctx, record)
}

// hold writes the job's record and its id for each of its GPUs. The record comes
// first, and without it there is no label: what no record names, the agent takes
// away.
func (h *hook) hold(record *rundir.Record) {
	key, old, err := rundir.FindRecord(h.runDir, h.identity())
	if err != nil {
		h.fail(rundir.CallRecord, "%v; it is replaced", err)
	}
	m := h.mappingOf(record)
	if old != nil { // a run whose Epilog was lost may have held others
		h.replaceRun(key, old, record)
	}
	if err := rundir.WriteRecord(h.runDir, key, *record); err != nil {
		h.fail(rundir.CallRecord, "%v; its GPUs go without a label", err)
		if old == nil {
			return
		}
		// The old record would give this run the GPUs of that one.
		if err := errors.Join(m.Remove(record.JobID, union(old.GPUs, old.Leaving)), rundir.RemoveRecord(h.runDir, key)); err != nil {
			h.fail(rundir.CallMapping, "%v", err)
		}
		return
	}
	if err := errors.Join(m.Remove(record.JobID, record.Leaving), m.Add(record.JobID, record.GPUs)); err != nil {
		h.fail(rundir.CallMapping, "%v", err)
	}
}

// replaceRun ends the run that a record is of, where it is not this one, and has
// this one's record name what it leaves.
func (h *hook) replaceRun(key string, old, record *rundir.Record) {
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

// epilog releases the job's GPUs. Nobody waits for it but the node's next job,
// and so it tidies up too.
func (h *hook) epilog(ctx context.Context) {
	err := h.locked(ctx, func() {
		if exists(h.mapping) {
			h.sweep()
		}
		h.makeUp()
		if err := h.release(h.mark(), h.endTime(), h.exitCode()); err != nil {
			h.leave(rundir.CallMapping, err)
		}
		h.set(func() { h.released = true })
	})
	if err != nil {
		h.leave(rundir.CallLock, err)
	}
	rundir.Tidy(h.runDir)
	h.mappingOf(nil).Tidy()
	h.spool()
}

// leave says what becomes of the labels of a run that could not be released.
func (h *hook) leave(word string, why error) {
	if err := rundir.WriteRelease(h.runDir, h.mark()); err != nil {
		h.fail(word, "%v; %v; its GPUs keep its label", why, err)
		return
	}
	h.set(func() { h.released = true })
	h.fail(word, "%v; its GPUs keep its label until another job starts or ends here", why)
}

// mark is what stands for the run of the environment when it has ended.
func (h *hook) mark() rundir.Release {
	return rundir.Release{JobIdentity: h.identity(), Run: h.run(), MappingDir: h.mapping}
}

// sweep takes away the labels from before the node's last boot.
func (h *hook) sweep() {
	released, err := h.mappingOf(nil).Sweep(rundir.BootID())
	if err != nil {
		h.fail(rundir.CallMapping, "release GPUs after a boot: %v", err)
	}
	if len(released) > 0 {
		h.say("first job since the node's boot: released GPUs %s of jobs from before", strings.Join(released, ", "))
		h.restore()
	}
}

// makeUp releases the runs whose Epilogs did not get the lock.
func (h *hook) makeUp() {
	marks, err := rundir.ReadReleases(h.runDir)
	if err != nil {
		h.fail(rundir.CallRecord, "%v; remove a mark that cannot be read", err)
	}
	for _, m := range marks {
		err := h.release(m, m.Written, "")
		if err == nil {
			err = rundir.RemoveRelease(h.runDir, m)
		}
		if err != nil {
			h.fail(rundir.CallMapping, "release job %s: %v", m.JobID, err)
		}
	}
}

// release takes the job's id out of the files that its record names. Without a
// record all files are searched. A late release of an earlier run leaves the later
// run alone.
func (h *hook) release(m rundir.Release, ended time.Time, exit string) error {
	key, record, err := rundir.FindRecord(h.runDir, m.JobIdentity)
	broken := err != nil
	if broken {
		h.fail(rundir.CallRecord, "%v; the mapping is searched", err)
	}
	if record != nil && record.After(m.Run) {
		h.say("job %s: this Epilog is of run %s, the GPUs are held by run %s: left alone", m.JobID, m.Run, record.Run)
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
		if m.Run.After(record.Run) { // what the Epilog knows is not of the record's run
			ended, exit = h.lostEnd(key, record, m.Run), ""
		}
		h.summarize(key, record, ended, exit)
	}
	if record != nil || broken {
		return rundir.RemoveRecord(h.runDir, key)
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
