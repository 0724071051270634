package hook

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// needsProlog says whether a Prolog has anything to do: the job has GPUs, or an
// earlier run of the job left a record.
func (h *job) needsProlog() bool {
	if h.env.hasGPUs() {
		return true
	}
	_, old, err := h.runDir.FindRecord(h.env.identity())
	return old != nil || err != nil
}

func (h *job) prolog(ctx context.Context) {
	record := h.newRecord()
	// The record comes first, because the agent makes the labels of a record that a killed
	// Prolog leaves. Only what an earlier run of this job left comes before it.
	err := h.locked(ctx, func() {
		h.drainMarks(true, false)
		saved := h.save(record)
		h.sweep(true)
		if saved {
			h.label(record)
		}
		h.drainMarks(false, true)
	})
	if err != nil {
		h.recordOnly(record, err)
		return
	}
	h.prune()
}

// recordOnly leaves the record of a run that could not be labelled: the agent adds
// the labels. A record of an earlier run stays, because it names GPUs to release. It gets
// a mark, because the earlier run has ended and its Epilog was lost.
func (h *job) recordOnly(record *rundir.Record, why error) {
	key, old, err := h.runDir.FindRecord(h.env.identity())
	until := ""
	if err == nil && old == nil && h.runDir.WriteRecord(key, *record) == nil {
		until = " until the agent sees the record"
	}
	if err == nil && old != nil && record.After(old.Run) {
		_ = h.runDir.End(rundir.MarkOf(old.Identity(), old.Run, time.Unix(h.lostEnd(old, record.Run), 0), "")) // else the agent notices the end
	}
	h.fail(rundir.CallLock, "%v; its GPUs get no label%s", why, until)
}

// newRecord makes the record of the job.
func (h *job) newRecord() *rundir.Record {
	r := &rundir.Record{JobID: h.env("SLURM_JOB_ID"), Run: h.env.run(), BootID: h.boot,
		User: h.env("SLURM_JOB_USER"), UID: h.env("SLURM_JOB_UID"), Partition: h.env("SLURM_JOB_PARTITION"), Account: h.env("SLURM_JOB_ACCOUNT"), QOS: h.env("SLURM_JOB_QOS"),
		Cluster: h.env("SLURM_CLUSTER_NAME"), Node: h.env("SLURMD_NODENAME"), NodeList: h.env("SLURM_JOB_NODELIST"), NumNodes: h.env("SLURM_JOB_NUM_NODES"),
		EndTime: h.env("SLURM_JOB_END_TIME"), Indices: h.env("SLURM_JOB_GPUS"), Visible: strings.Join(rundir.UUIDsIn(h.env("CUDA_VISIBLE_DEVICES")), ",")}
	h.resolve(r)
	return r
}

// resolve finds out which GPUs the job holds.
func (h *job) resolve(r *rundir.Record) {
	inv, current, missing := h.runDir.FindInventory(h.kept, h.boot)
	var unlisted error
	word := rundir.CallGresConf
	if inv == nil || r.Visible == "" { // UUIDs are exact
		var places []int
		if places, unlisted = rundir.ParseIndices(r.Indices); unlisted != nil {
			word = rundir.CallEnvironment
		} else if r.Devices, unlisted = h.devicesInTime(inv, places); unlisted != nil {
			unlisted = fmt.Errorf("SLURM_JOB_GPUS=%s: %w; these GPUs get no label", hostlist.Shorten(r.Indices), unlisted)
		}
	}
	held, unresolved := inv.Resolve(r.Devices, r.Visible)
	r.SetDevices(held)
	r.Unresolved = !current || unlisted != nil || unresolved != nil
	if missing != nil {
		h.fail(rundir.CallInventory, "%s", h.withoutInventory(missing, inv, r.GPUs))
	}
	if unlisted != nil {
		h.fail(word, "%v", unlisted)
	}
	if unresolved != nil {
		h.fail(rundir.CallEnvironment, "%v", unresolved)
	}
	if current {
		h.warn(r, inv)
	}
	h.warnOfUnowned(r)
}

// withoutInventory says why there is no inventory of this boot, and what is used in its place.
func (h *job) withoutInventory(why error, inv *rundir.Inventory, gpus []string) string {
	said := why.Error()
	if errors.Is(why, fs.ErrNotExist) {
		said = "no inventory in " + string(h.runDir)
	}
	switch {
	case inv != nil:
		return said + ": the last known inventory is used"
	case len(gpus) > 0:
		return said + ": numbers of device files are taken as the exporter's ids"
	}
	return said
}

// maxWarning bounds what is said of one GPU of a job, in bytes.
const maxWarning = 300

// warn says what the agent last reported to be wrong with the job's GPUs or the node. The job
// starts all the same.
func (h *job) warn(r *rundir.Record, inv *rundir.Inventory) {
	for _, f := range inv.FaultsOf(r.UUIDs) {
		if len(r.Warnings) == rundir.MaxWarnings {
			break
		}
		text := topology.Cut(f.Text, maxWarning)
		r.Warnings = append(r.Warnings, text)
		h.say("job %s: warning: %s; the job starts all the same", r.JobID, text)
	}
}

// warnOfUnowned says how much memory was in use on the job's GPUs when the agent last looked.
func (h *job) warnOfUnowned(r *rundir.Record) {
	found, err := h.runDir.UnownedOn(r.UUIDs)
	if err != nil {
		h.say("job %s: %v", r.JobID, err)
	}
	for _, u := range found {
		h.say("job %s: warning: %d GiB were in use before this job on GPU %.100s, by programs that no job holds; the job starts all the same", r.JobID, u.GiB, u.UUID)
	}
}

// save writes the job's record. If that replaces the record of another run, it ends that run.
// If the record cannot be written the job gets no label, because the agent removes labels
// without a record.
func (h *job) save(record *rundir.Record) (saved bool) {
	key, old, err := h.runDir.FindRecord(h.env.identity())
	if err != nil {
		h.fail(rundir.CallRecord, "%v; the record is replaced", err)
	}
	if old != nil && (old.After(record.Run) || record.After(old.Run)) {
		h.end(rundir.Summary{Key: key, Record: *old, Ended: h.lostEnd(old, record.Run)})
	}
	if old != nil { // a run whose Epilog was lost may have held other GPUs
		record.Leaving = slices.DeleteFunc(union(old.GPUs, old.Leaving), func(gpu string) bool { return slices.Contains(record.GPUs, gpu) })
	}
	if err = h.runDir.WriteRecord(key, *record); err == nil {
		return true
	}
	h.fail(rundir.CallRecord, "%v; its GPUs get no label", err)
	if old == nil {
		return false
	}
	// The old record would give this run the GPUs of the old run.
	if err := errors.Join(h.labels.Clear(old.JobID, union(old.GPUs, old.Leaving)), h.runDir.RemoveRecord(key)); err != nil {
		h.fail(rundir.CallMapping, "%v", err)
	}
	return false
}

// label writes the job's id for each GPU of its record.
func (h *job) label(record *rundir.Record) {
	if err := errors.Join(h.labels.Clear(record.JobID, record.Leaving), h.labels.Set(record.JobID, record.GPUs)); err != nil {
		h.fail(rundir.CallMapping, "%v", err)
	}
}
