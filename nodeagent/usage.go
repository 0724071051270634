package nodeagent

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// holding is how long a device was held by jobs, and how long it did nothing
// meanwhile, as long as this boot lasts.
type holding struct {
	// runs are the keys of the records of the jobs that hold it now.
	runs map[string]bool
	held time.Duration
	idle time.Duration
	// idleSince is since when it does nothing, sampled when the last sample that
	// told whether it does was taken; zero without one since it is held.
	idleSince, sampled time.Duration
	// since is when it came to be held.
	since time.Duration
}

// stretch is for how long the device has done nothing up to its last sample.
func (h *holding) stretch() time.Duration {
	if h.idleSince == 0 {
		return 0
	}
	return h.sampled - h.idleSince
}

// usage counts for all devices.
type deviceUsage struct {
	devices map[string]*holding // by UUID
	// at is up to when held has been counted.
	at time.Duration
	// lastSample is when a sample was last taken, or expected.
	lastSample  time.Duration
	ok, missing float64 // samples of devices
	wanted      []string
}

func newUsage() deviceUsage { return deviceUsage{devices: make(map[string]*holding)} }

// advance counts the time up to now for the devices that were held all the while.
func (u *deviceUsage) advance(now time.Duration) {
	if now <= u.at {
		return
	}
	for _, h := range u.devices {
		if len(h.runs) > 0 {
			h.held += now - u.at
		}
	}
	u.at = now
}

// hold takes who holds which device from now on. A device that nobody held at the
// last look, at scanned, is held since the record was written.
func (u *deviceUsage) hold(holders map[string]map[string]time.Time, now, scanned moment) {
	for uuid, h := range u.devices {
		if len(holders[uuid]) == 0 && len(h.runs) > 0 {
			h.runs, h.idleSince, h.sampled = nil, 0, 0
		}
	}
	for uuid, runs := range holders {
		h := u.devices[uuid]
		if h == nil {
			h = &holding{}
			u.devices[uuid] = h
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(runs)), func(run string) bool { return h.runs[run] }) {
			since := now.up
			for _, written := range runs {
				since = min(since, max(now.up-now.wall.Sub(written), scanned.up))
			}
			if len(h.runs) == 0 {
				h.held += now.up - since
			}
			h.idleSince, h.sampled, h.since = 0, 0, since
		}
		h.runs = make(map[string]bool, len(runs))
		for run := range runs {
			h.runs[run] = true
		}
	}
}

// forget drops devices that nobody holds and that the node no longer has, such as
// MIG instances of before.
func (u *deviceUsage) forget(inv *rundir.Inventory) {
	if inv == nil {
		return
	}
	has := make(map[string]bool, len(inv.Entries))
	for i := range inv.Entries {
		has[inv.Entries[i].UUID] = true
	}
	maps.DeleteFunc(u.devices, func(uuid string, h *holding) bool { return len(h.runs) == 0 && !has[uuid] })
}

// sample counts what a sample says of the devices that are held. It speaks for the
// time since the one before, as in rundir.Covered, and never for time in which no
// job held the device.
func (u *deviceUsage) sample(s topology.Sample, now, interval time.Duration) {
	told := make(map[string]bool, len(s.Devices))
	for i := range s.Devices {
		d := &s.Devices[i]
		h := u.devices[d.UUID]
		if h == nil || len(h.runs) == 0 {
			continue
		}
		told[d.UUID] = true
		covered := coveredUp(h, now, interval)
		switch {
		case d.Idle():
			h.idle += covered
			if h.idleSince == 0 || now-h.sampled > covered {
				h.idleSince = now - covered
			}
			h.sampled = now
		case d.Busy():
			h.idleSince, h.sampled = 0, now
		}
	}
	for _, uuid := range u.wanted {
		if told[uuid] {
			u.ok++
		} else {
			u.missing++
		}
	}
	u.lastSample = now
}

// coveredUp is the time for which a sample of a held device speaks.
func coveredUp(h *holding, now, interval time.Duration) time.Duration {
	from := max(h.sampled, h.since)
	epoch := time.Unix(0, 0)
	return min(rundir.Covered(epoch.Add(from), epoch.Add(now), interval), now-h.since)
}

// expect counts the samples that should have come by now and did not.
func (u *deviceUsage) expect(now, interval time.Duration) {
	if len(u.wanted) == 0 {
		u.lastSample = now
		return
	}
	for now-u.lastSample >= 2*interval {
		u.missing += float64(len(u.wanted))
		u.lastSample += interval
	}
}

// hold brings devices and samples up to which jobs there are.
func (j *Jobs) hold(now moment) {
	j.usage.advance(now.up)
	holders := make(map[string]map[string]time.Time)
	for key, b := range j.jobs {
		if !j.running(b) {
			continue
		}
		for i := range b.devices {
			uuid := b.devices[i].entry.UUID
			if uuid == "" {
				continue
			}
			if holders[uuid] == nil {
				holders[uuid] = make(map[string]time.Time)
			}
			holders[uuid][runName(key, &b.record)] = b.record.Written
		}
		j.holdUse(b, now)
	}
	j.usage.hold(holders, now, j.scanned)
	j.usage.forget(j.inventory.of)
	j.usage.expect(now.up, j.config.SampleEvery)
	wanted := slices.DeleteFunc(slices.Sorted(maps.Keys(holders)), func(uuid string) bool { return !topology.IsDeviceUUID(uuid) })
	if !slices.Equal(wanted, j.usage.wanted) {
		j.usage.wanted = wanted
		j.mu.Lock()
		j.wanted = wanted
		j.mu.Unlock()
		notify(j.changed)
	}
}

// holdUse sees to it that a job has a use, of its run and with its devices.
func (j *Jobs) holdUse(b *job, now moment) {
	if b.use == nil {
		b.use = rundir.NewUse(b.record.JobID, b.record.Run, now.wall)
		was, err := rundir.ReadUse(j.config.RunDir, b.key)
		if err != nil {
			j.log.Warn("use of a job begins anew", "job", b.record.JobID, "err", err)
		} else if was != nil && was.JobID == b.record.JobID && was.Run == b.record.Run {
			b.use = was
			b.use.Since = b.use.Since.Round(0)
		}
	}
	entries := make([]rundir.Entry, len(b.devices))
	for i := range b.devices {
		entries[i] = b.devices[i].entry
	}
	b.use.Hold(entries)
	b.use.Contained = len(b.life.contained) > 0
	if n := j.report(); len(b.devices) > 0 && n != nil {
		b.use.Clique = cliqueOf(n, &b.devices[0])
	}
}

// count takes a sample.
func (j *Jobs) count(s timedSample) {
	j.usage.advance(s.at.up)
	j.usage.sample(s.sample, s.at.up, j.config.SampleEvery)
	var failed error
	for _, b := range j.sorted() {
		if b.use == nil || !j.running(b) {
			continue
		}
		b.use.Add(s.sample, s.at.wall, j.config.SampleEvery)
		failed = errors.Join(failed, j.writeUse(b))
	}
	j.say("use of jobs", failed)
	j.show(s.at)
	j.keepState()
}

// writeUse writes a job's use, unless its record is gone: an Epilog has then taken
// it into the summary.
func (j *Jobs) writeUse(b *job) error {
	if !isThere(j.recordPath(b.key)) {
		return nil
	}
	if err := rundir.WriteUse(j.config.RunDir, b.key, b.use); err != nil {
		return err
	}
	if !isThere(j.recordPath(b.key)) { // the Epilog came in between
		return rundir.RemoveUse(j.config.RunDir, b.key)
	}
	return nil
}

// tidyUses removes the uses of jobs that have no record.
func (j *Jobs) tidyUses() error {
	keys, failed := rundir.UseKeys(j.config.RunDir)
	for _, key := range keys {
		if j.jobs[key] == nil && !isThere(j.recordPath(key)) {
			failed = errors.Join(failed, rundir.RemoveUse(j.config.RunDir, key))
		}
	}
	rundir.TidyUses(j.config.RunDir)
	return failed
}
