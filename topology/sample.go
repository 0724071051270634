package topology

import "strings"

// Sample is how a node's devices are used at one moment. It is no fact of the
// node and never part of its report.
type Sample struct {
	// Devices are the devices that jobs hold, as far as they can be read. Nil says nothing of
	// their use.
	Devices []DeviceUse `json:"devices,omitzero"`
	// Xids are those of GPUs, by UUID. They are of whole GPUs, so a MIG instance has none. A
	// GPU is absent if nobody watches for its Xids.
	Xids map[string]XidCounts `json:"xids,omitempty"`
	// Programs are those on devices, by UUID. A device is absent if they are not known: a
	// container may see none of them.
	Programs map[string][]Program `json:"programs,omitempty"`
}

// Program is a process with a context for compute on a device. A client of MPS is one, and MPS's
// server is none.
type Program struct {
	PID uint32 `json:"pid"`
	// Memory is in bytes, nil if the driver does not tell.
	Memory *uint64 `json:"memory,omitempty"`
}

// MuchMemory is how much memory of a program without a job is worth a word, in bytes.
const MuchMemory = 1 << 30

// MaxPrograms bounds the programs of a device in a sample.
const MaxPrograms = 1024

// DeviceUse is the use of one GPU, or of one MIG instance. What the device or its
// driver does not tell is nil, never zero.
type DeviceUse struct {
	// UUID is GPU-... or MIG-....
	UUID string `json:"uuid"`
	// Utilization is the share of time in which a kernel ran, 0 to 1. A MIG
	// instance has one of Hopper and newer.
	Utilization *float64 `json:"utilization,omitempty"`
	// SMActivity is the share of SMs that were busy, 0 to 1, of Hopper and newer.
	SMActivity *float64 `json:"smActivity,omitempty"`
	// MemoryUsed and MemoryTotal are in bytes.
	MemoryUsed  *uint64 `json:"memoryUsed,omitempty"`
	MemoryTotal *uint64 `json:"memoryTotal,omitempty"`
	// Power is in watts. A MIG instance has none, nor an Energy.
	Power *float64 `json:"power,omitempty"`
	// Energy is in joules since the driver was loaded.
	Energy *float64 `json:"energy,omitempty"`
	// Processes is how many programs have a context for compute on the device. A container may
	// see none of them; then it is nil, unless no memory is in use.
	Processes *int `json:"processes,omitempty"`
}

// XidCounts are how many Xids of a GPU came since somebody watches for them.
type XidCounts struct {
	// Since is in nanoseconds since 1970. If it differs from that of an earlier sample,
	// nobody watched for a time in between.
	Since int64 `json:"since"`
	// Came are the Xids by number.
	Came map[int]uint64 `json:"came,omitempty"`
}

// MaxXidNumbers bounds the different Xids of a GPU in a sample.
const MaxXidNumbers = 100

// leastActivity is the SM activity below which a device does nothing: NVML's
// utilisation, in whole percents, would say 0.
const leastActivity = 0.005

// Busy says whether a program has the device, or something runs on it.
func (d *DeviceUse) Busy() bool {
	return d.Processes != nil && *d.Processes > 0 || d.Utilization != nil && *d.Utilization > 0 || d.SMActivity != nil && *d.SMActivity >= leastActivity
}

// Without takes a program away from what is known of a device. If there is no other program, nothing
// runs on the device but that one.
func (d *DeviceUse) Without(p Program) {
	if d.Processes != nil && *d.Processes > 0 {
		if d.Processes = new(*d.Processes - 1); *d.Processes == 0 {
			d.Utilization, d.SMActivity = none(d.Utilization), none(d.SMActivity)
		}
	}
	if d.MemoryUsed == nil || p.Memory == nil {
		d.MemoryUsed = nil
	} else {
		d.MemoryUsed = new(*d.MemoryUsed - min(*d.MemoryUsed, *p.Memory))
	}
}

// none is a share of nothing, nil if the device does not tell the share.
func none(share *float64) *float64 {
	if share == nil {
		return nil
	}
	return new(0.0)
}

// Idle says whether it is known that no program has the device and that nothing
// runs on it. A device may be neither idle nor busy, for want of either fact. A
// MIG instance has no utilisation, and so it is idle without a program.
func (d *DeviceUse) Idle() bool {
	known := d.Utilization != nil || d.SMActivity != nil || strings.HasPrefix(d.UUID, "MIG-")
	return d.Processes != nil && known && !d.Busy()
}

// IsDeviceUUID says whether s has the form of a GPU's or a MIG instance's UUID.
// Before driver 470 a MIG instance's had slashes.
func IsDeviceUUID(s string) bool {
	const most = 96
	if len(s) > most || len(s) < 5 || !strings.HasPrefix(s, "GPU-") && !strings.HasPrefix(s, "MIG-") {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '/'
	})
}
