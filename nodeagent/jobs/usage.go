package jobs

import (
	"maps"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// holding counts since the boot: for how long jobs held a device, and for how long the
// device was idle meanwhile.
type holding struct {
	// Runs are the runs that hold the device now, and when their records were written.
	Runs map[string]time.Time `json:"runs,omitempty"`
	Held time.Duration        `json:"held"`
	Idle time.Duration        `json:"idle,omitempty"`
	// IdleSince is since when the device is idle. Sampled is when the last sample said
	// whether it is idle. Both are zero without such a sample since it is held.
	IdleSince time.Duration `json:"idleSince,omitempty"`
	Sampled   time.Duration `json:"sampled,omitempty"`
	// Since is when the device was last taken.
	Since time.Duration `json:"since,omitempty"`
}

// stretch is for how long the device has been idle up to its last sample.
func (h *holding) stretch() time.Duration {
	if h.IdleSince == 0 {
		return 0
	}
	return h.Sampled - h.IdleSince
}

// deviceUsage counts the use of all devices.
type deviceUsage struct {
	devices map[string]*holding // by UUID
	// at is the time up to which held has been counted.
	at time.Duration
	// lastSample is when a sample was last taken, or expected.
	lastSample time.Duration
	wanted     []string // the devices to sample
}

// advance counts the time up to now for the devices that are held.
func (u *deviceUsage) advance(now time.Duration) {
	if now <= u.at {
		return
	}
	for _, h := range u.devices {
		if len(h.Runs) > 0 {
			h.Held += now - u.at
		}
	}
	u.at = now
}

// setHolders sets who holds which device from now on. A device that nobody held at the
// last look, at scanned, is held since the record was written.
func (u *deviceUsage) setHolders(holders map[string]map[string]time.Time, now, scanned moment) {
	for uuid, h := range u.devices {
		if len(holders[uuid]) == 0 && len(h.Runs) > 0 {
			h.Runs, h.IdleSince, h.Sampled = nil, 0, 0
		}
	}
	for uuid, runs := range holders {
		h := u.devices[uuid]
		if h == nil {
			h = &holding{}
			u.devices[uuid] = h
		}
		since, others := now.up, true
		for run, written := range runs {
			since = min(since, max(now.up-now.wall.Sub(written), scanned.up))
			_, before := h.Runs[run]
			others = others && !before
		}
		if len(h.Runs) == 0 {
			h.Held += now.up - since
		}
		if others {
			h.IdleSince, h.Sampled, h.Since = 0, 0, since
		}
		h.Runs = runs
	}
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
	maps.DeleteFunc(u.devices, func(uuid string, h *holding) bool { return len(h.Runs) == 0 && !has[uuid] })
}

// sample counts what a sample says of the devices that are held. The sample stands for
// the time since the one before, as in rundir.Covered, but not for time in which no
// job held the device. sample returns how many of the wanted devices the sample has,
// and how many it lacks.
func (u *deviceUsage) sample(s topology.Sample, now, interval time.Duration) (ok, missing int) {
	told := make(map[string]bool, len(s.Devices))
	for i := range s.Devices {
		d := &s.Devices[i]
		h := u.devices[d.UUID]
		if h == nil || len(h.Runs) == 0 || d.OnlyXids() {
			continue
		}
		told[d.UUID] = true
		covered := min(rundir.Covered(now-max(h.Sampled, h.Since), interval), now-h.Since)
		switch {
		case d.Idle():
			h.Idle += covered
			if h.IdleSince == 0 || now-h.Sampled > covered {
				h.IdleSince = now - covered
			}
			h.Sampled = now
		case d.Busy():
			h.IdleSince, h.Sampled = 0, now
		}
	}
	if s.OnlyXids() { // it is no sample of the use
		return 0, 0
	}
	for _, uuid := range u.wanted {
		if told[uuid] {
			ok++
		} else {
			missing++
		}
	}
	u.lastSample = now
	return ok, missing
}

// expect counts the samples that should have come by now and have not.
func (u *deviceUsage) expect(now, interval time.Duration) (missing int) {
	if len(u.wanted) == 0 {
		u.lastSample = now
	}
	for now-u.lastSample >= 2*interval {
		missing += len(u.wanted)
		u.lastSample += interval
	}
	return missing
}
