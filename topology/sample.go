package topology

// Sample is how a node's devices are used at one moment. It is no fact of the
// node and never part of its report.
type Sample struct {
	Devices []DeviceUse `json:"devices"`
}

// DeviceUse is the use of one GPU, or of one MIG instance. What the device or its
// driver does not tell is nil, never zero.
type DeviceUse struct {
	// UUID is GPU-... or MIG-....
	UUID string `json:"uuid"`
	// Utilization is the share of time in which a kernel ran, 0 to 1. A MIG
	// instance has none.
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
	// Processes is how many programs have a context on the device.
	Processes *int `json:"processes,omitempty"`
}
