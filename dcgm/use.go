package dcgm

import "time"

// Use is how a job has used its devices on this node so far. The agent keeps it
// beside the job's record while the job runs.
type Use struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	JobID      string `json:"jobID"`
	Run
	// Since is when the agent first saw the job, Until when it last took a sample.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Contained says that the job's external step, or its batch step, was seen to
	// live here: when it is gone the job has ended on this node.
	Contained bool `json:"contained,omitempty"`
	// Clique is the node's NVLink clique, Block its block in Slurm's topology.
	Clique string `json:"clique,omitempty"`
	Block  string `json:"block,omitempty"`
	// Blocks are those of all the job's nodes, sorted, where they are known.
	Blocks  []string    `json:"blocks,omitempty"`
	Devices []DeviceUse `json:"devices"`
}

// DeviceUse sums up the samples of one device that the job held. What could not
// be sampled is nil.
type DeviceUse struct {
	UUID string `json:"uuid"`
	// ExporterID is as in the inventory: GPU, or GPU.instance.
	ExporterID string `json:"exporterID,omitempty"`
	Product    string `json:"product,omitempty"`
	// Samples is how many were taken, over Seconds.
	Samples int     `json:"samples"`
	Seconds float64 `json:"seconds"`
	// IdleSeconds are those without a process and without utilisation.
	IdleSeconds float64 `json:"idleSeconds"`
	// Used is true once a sample has shown a process or utilisation.
	Used        bool   `json:"used"`
	Utilization *Stat  `json:"utilization,omitempty"` // 0 to 1
	SMActivity  *Stat  `json:"smActivity,omitempty"`  // 0 to 1
	Memory      *Stat  `json:"memory,omitempty"`      // bytes
	MemoryTotal uint64 `json:"memoryTotal,omitempty"` // bytes
	Power       *Stat  `json:"power,omitempty"`       // watts
	// Energy is in joules: the difference of the device's counter.
	Energy *float64 `json:"energy,omitempty"`
}

// Stat is a mean over time, and the largest sample.
type Stat struct {
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}
