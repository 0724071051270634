package jobs

import (
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// account is for how many seconds jobs have held a device since the agent began, and for how
// many of these the device was idle.
type account struct{ held, idle float64 }

// growth is what the uses of a device's jobs have grown by in one sample.
type growth struct {
	account
	// busy says that the sample does not show the device idle for each of the jobs.
	busy bool
}

// add adds what the use of one more job has grown by. The time of several jobs counts once.
func (g *growth) add(before, after *rundir.DeviceUse) {
	held, idle := after.Seconds-before.Seconds, after.IdleSeconds-before.IdleSeconds
	g.held, g.idle = max(g.held, held), max(g.idle, idle)
	g.busy = g.busy || idle < held/2 // a sample shows a device idle or not, and sums are rounded
}

// deviceUsage sums up the use of all devices.
type deviceUsage struct {
	accounts map[string]account // by UUID
	// lastSample is when a sample was last taken, or expected.
	lastSample time.Duration
	wanted     []string // the devices to sample
}

// add adds what the uses of jobs have grown by.
func (u *deviceUsage) add(grown map[string]growth) {
	for uuid, g := range grown {
		a := u.accounts[uuid]
		a.held += g.held
		if !g.busy {
			a.idle += g.idle
		}
		u.accounts[uuid] = a
	}
}

// sample returns how many of the wanted devices a sample has, and how many it lacks.
func (u *deviceUsage) sample(s topology.Sample, now time.Duration) (ok, missing int) {
	if s.Devices == nil { // it is no sample of the use
		return 0, 0
	}
	told := make(map[string]bool, len(s.Devices))
	for i := range s.Devices {
		told[s.Devices[i].UUID] = true
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
