package simulated

import (
	"github.com/quoin-hpc/quoin/topology"
)

// use is how a device is used, until another fault changes it.
type use struct {
	// Processes is how many programs have it.
	Processes int `yaml:"processes"`
	// Utilization and SMActivity are percents. Without SMActivity the device does
	// not report it.
	Utilization int  `yaml:"utilization"`
	SMActivity  *int `yaml:"smActivity"`
	// MemoryMiB is what programs use of its memory.
	MemoryMiB uint64 `yaml:"memoryMiB"`
	// Power is in watts, 70 by default.
	Power *int `yaml:"power"`
}

const idleWatts = 70

// check returns what is wrong. nil is valid.
func (u *use) check() error {
	percent := func(v int) bool { return v >= 0 && v <= 100 }
	switch {
	case u == nil:
	case u.Processes < 0:
		return bad("use.processes", "%d: want 0 or more", u.Processes)
	case u.Power != nil && (*u.Power < 0 || *u.Power > 10000):
		return bad("use.power", "%d: want 0 to 10000 watts", *u.Power)
	case !percent(u.Utilization):
		return bad("use.utilization", "%d: want 0 to 100 percent", u.Utilization)
	case u.SMActivity != nil && !percent(*u.SMActivity):
		return bad("use.smActivity", "%d: want 0 to 100 percent", *u.SMActivity)
	}
	return nil
}

// Use returns how the devices of a machine are used now: its GPUs, or their MIG
// instances, in the order of its report. It has no energy, because energy needs a
// clock.
func (c *Cluster) Use(name string) ([]topology.DeviceUse, error) {
	now, err := c.Machine(name)
	if err != nil {
		return nil, err
	}
	var out []topology.DeviceUse
	if now.Report == nil {
		return nil, nil
	}
	m := &c.machines[c.index[name]]
	for i := range now.Report.GPUs {
		g := &now.Report.GPUs[i]
		u := m.use(g.Index, nil)
		if len(g.MIG) == 0 {
			out = append(out, u.device(g.UUID, g.MemoryMiB))
		}
		for k := range g.MIG {
			u := m.use(g.Index, &g.MIG[k].GPUInstanceID)
			d := u.device(g.MIG[k].UUID, g.MemoryMiB/uint64(len(g.MIG)))
			d.Utilization, d.Power = nil, nil
			out = append(out, d)
		}
	}
	return out, nil
}

// use returns the present use of a GPU, or of an instance in it.
func (m *machine) use(gpu int, instance *int) use {
	u := m.group.Use
	for i := range m.faults {
		f := &m.faults[i]
		if f.Use == nil || f.GPU != nil && *f.GPU != gpu {
			continue
		}
		if f.Instance == nil || instance != nil && *f.Instance == *instance {
			u = *f.Use
		}
	}
	return u
}

func (u *use) device(uuid string, totalMiB uint64) topology.DeviceUse {
	share := func(percent int) *float64 {
		v := float64(percent) / 100
		return &v
	}
	watts, processes := float64(idleWatts), u.Processes
	if u.Power != nil {
		watts = float64(*u.Power)
	}
	total, used := totalMiB<<20, min(u.MemoryMiB, totalMiB)<<20
	d := topology.DeviceUse{UUID: uuid, Utilization: share(u.Utilization), MemoryUsed: &used, MemoryTotal: &total, Power: &watts, Processes: &processes}
	if u.SMActivity != nil {
		d.SMActivity = share(*u.SMActivity)
	}
	return d
}
