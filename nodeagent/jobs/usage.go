package jobs

import (
	"maps"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// holding counts since the boot: for how long jobs held a device, and for how long the
// device was idle meanwhile.
type holding struct {
	// runs are the runs that hold the device now.
	runs map[string]bool
	held time.Duration
	idle time.Duration
	// idleSince is since when the device is idle. sampled is when the last sample said
	// whether it is idle. Both are zero without such a sample since it is held.
	idleSince, sampled time.Duration
	// since is when the device was last taken.
	since time.Duration
}

// stretch is for how long the device has been idle up to its last sample.
func (h *holding) stretch() time.Duration {
	if h.idleSince == 0 {
		return 0
	}
	return h.sampled - h.idleSince
}

// deviceUsage counts the use of all devices.
type deviceUsage struct {
	devices map[string]*holding // by UUID
	// at is the time up to which held has been counted.
	at time.Duration
	// lastSample is when a sample was last taken, or expected.
	lastSample  time.Duration
	ok, missing float64  // samples of devices
	wanted      []string // the devices to sample
}

func newUsage() deviceUsage { return deviceUsage{devices: make(map[string]*holding)} }

// advance counts the time up to now for the devices that are held.
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

// setHolders sets who holds which device from now on. A device that nobody held at the
// last look, at scanned, is held since the record was written.
func (u *deviceUsage) setHolders(holders map[string]map[string]time.Time, now, scanned moment) {
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

// want asks for samples of the devices that are held.
func (u *deviceUsage) want(holders map[string]map[string]time.Time) {
	u.wanted = slices.DeleteFunc(sortedKeys(holders), func(uuid string) bool { return !topology.IsDeviceUUID(uuid) })
}

// forget drops devices that nobody holds and that the node no longer has, such as
// deleted MIG instances.
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

// sample counts what a sample says of the devices that are held. The sample stands for
// the time since the one before, as in rundir.Covered, but not for time in which no
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

// coveredUp is the time for which a sample of a held device stands.
func coveredUp(h *holding, now, interval time.Duration) time.Duration {
	from := max(h.sampled, h.since)
	epoch := time.Unix(0, 0)
	return min(rundir.Covered(epoch.Add(from), epoch.Add(now), interval), now-h.since)
}

// expect counts the samples that should have come by now and have not.
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
