package hook

import (
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// recordOnly leaves the record of a run that could not be labelled: the agent adds
// the labels. A record of an earlier run stays, because it names GPUs to release.
func (h *job) recordOnly(record *rundir.Record, why error) {
	key, old, err := h.runDir.FindRecord(h.env.identity())
	if err != nil || old != nil || h.runDir.WriteRecord(key, *record) != nil {
		h.fail(rundir.CallLock, "%v; its GPUs get no label", why)
		return
	}
	h.fail(rundir.CallLock, "%v; its GPUs get no label until the agent sees the record", why)
}

// restore writes the labels of this boot's jobs again: somebody may have removed the
// mark of the boot, or there was no room for it.
func (h *job) restore() {
	records, _ := h.runDir.ReadRecords() // a broken record names no GPUs
	for _, r := range records {
		if m := h.mappingOf(&r); r.BootID == h.boot && m.Dir == h.mapping {
			if err := m.Add(r.JobID, r.GPUs); err != nil {
				h.fail(rundir.CallMapping, "label job %s again: %v", r.JobID, err)
			}
		}
	}
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
