package hook

import (
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// promise leaves the record of a run that could not be labelled, from which the
// agent labels it; not in the place of an earlier run's, whose GPUs it would hide.
func (h *hook) promise(record *rundir.Record, why error) {
	key, old, err := rundir.FindRecord(h.runDir, h.identity())
	if err != nil || old != nil || rundir.WriteRecord(h.runDir, key, *record) != nil {
		h.fail(rundir.CallLock, "%v; its GPUs go without a label", why)
		return
	}
	h.fail(rundir.CallLock, "%v; its GPUs go without a label until the agent sees its record", why)
}

// restore writes the labels of this boot's jobs again: the mark of the boot may
// have been removed, or there was no room for it before.
func (h *hook) restore() {
	boot := rundir.BootID()
	records, _ := rundir.ReadRecords(h.runDir) // what is broken has no GPUs
	for _, r := range records {
		if m := h.mappingOf(&r); r.BootID == boot && m.Dir == h.mapping {
			if err := m.Add(r.JobID, r.GPUs); err != nil {
				h.fail(rundir.CallMapping, "label job %s again: %v", r.JobID, err)
			}
		}
	}
}

// lostEnd is when a run ended whose Epilog was lost: when it was last seen where
// that was before the node's boot, else when the next run of the job began.
func (h *hook) lostEnd(key string, lost *rundir.Record, next rundir.Run) time.Time {
	if boot := rundir.BootID(); lost.BootID != "" && boot != "" && lost.BootID != boot {
		if use, err := rundir.ReadUse(h.runDir, key); err == nil && use != nil && use.Run == lost.Run {
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
