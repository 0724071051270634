// Package hour is an hour of which everything is known: what four nodes and their
// jobs do from minute 0 to 60, and what the nodes' agents and publishers say of it.
package hour

import (
	"fmt"

	"github.com/quoin-hpc/quoin/test/rig/exporter"
)

// GiB is in bytes.
const GiB = 1 << 30

const (
	// H100 is the model of most GPUs.
	H100 = "NVIDIA H100 80GB HBM3"
	// CliqueA and CliqueB are two cliques of one NVLink domain.
	CliqueA = "3a7c0e52-93a4-4d29-8f51-9d3f1a6b7c01.1"
	CliqueB = "3a7c0e52-93a4-4d29-8f51-9d3f1a6b7c01.2"
)

// Node is one node, its exporter and its agent.
type Node struct {
	Name string
	// Since49 is its exporter's generation.
	Since49 bool
	// Label says that the scrape of its agent has the label node.
	Label bool
	// Clique and Block are empty where there is none.
	Clique, Block string
	Health        string
	IMEX          string
	Devices       []Device
}

// Device is a GPU or MIG instance; how it is used while a job holds it, and when
// none does.
type Device struct {
	exporter.Device
	Held, Free exporter.Use
	// Falters is the minute of a Xid, from which it does a third of its work; 0 for never.
	Falters int
}

// Job is a job, from its first minute up to its last.
type Job struct {
	ID, User, Account, QOS, Partition, Array, Name string
	From, To                                       int
	Holds                                          []Place
}

// Place is a device: the node and its place among the node's.
type Place struct{ Node, Device int }

// Cluster is the jobs' Slurm cluster.
const Cluster = "alpha"

var resting = exporter.Use{Size: 80 * GiB, Reserved: GiB / 2, Watts: 70, Limit: 650, Celsius: 30, MemoryCelsius: 35, Hertz: 345e6, ClockEvents: 1}

var (
	// Nodes are the nodes.
	Nodes = []Node{
		{Name: "n1", Label: true, Clique: CliqueA, Block: "b1", Health: "healthy", IMEX: "READY", Devices: []Device{
			h100Device(1, 0, 0.5, 40, 350), h100Device(1, 1, 0, 0, 70), slowed(h100Device(1, 2, 0.75, 60, 525), 32), slowed(h100Device(1, 3, 1, 20, 700), 4+8)}},
		{Name: "n2", Since49: true, Clique: CliqueB, Block: "b2", Health: "healthy", IMEX: "READY", Devices: []Device{
			slowed(h100Device(2, 0, 1, 20, 700), 128), slowed(h100Device(2, 1, 0.5, 10, 350), 16), faltering(slowed(h100Device(2, 2, 0.75, 10, 525), 8+64), 12), h100Device(2, 3, 0.25, 10, 175)}},
		{Name: "n3", Since49: true, Health: "", Devices: []Device{migDevice(1, 0.25), migDevice(2, 0.5)}},
		{Name: "n4", Since49: true, Clique: CliqueB, Block: "b2", Health: "unhealthy", IMEX: "UNAVAILABLE", Devices: []Device{gb200Device(0, 0), gb200Device(1, 48)}},
	}
	// Jobs are the jobs.
	Jobs = []Job{
		{ID: "101", User: "alice", Account: "physics", Partition: "gpu", To: 61, Holds: []Place{{0, 0}}}, // shares its GPU
		{ID: "102", User: "bob", Account: "biology", Partition: "gpu", To: 61, Holds: []Place{{0, 0}}},
		{ID: "103", User: "carol", Account: "physics", QOS: "low", Partition: "gpu", Name: "sleeps", To: 61, Holds: []Place{{0, 1}}},
		{ID: "104", User: "dave", Account: "chemistry", Partition: "gpu", To: 61, Holds: []Place{{0, 2}}},
		{ID: "106", Array: "105", User: "erin", Account: "chemistry", QOS: "high", Partition: "large", To: 61, Holds: []Place{{0, 3}, {1, 0}}}, // straddles
		{ID: "107", User: "bob", Account: "biology", Partition: "gpu", To: 33, Holds: []Place{{1, 1}, {1, 2}, {1, 3}}},                         // ends halfway
		{ID: "108", User: "alice", Account: "physics", Partition: "mig", To: 61, Holds: []Place{{2, 0}}},
		{ID: "109", User: "bob", Account: "biology", Partition: "mig", To: 61, Holds: []Place{{2, 1}}},
	}
)

func h100Device(n, gpu int, utilization, used, watts float64) Device {
	held := resting
	held.Utilization, held.Engine, held.SM, held.Tensor, held.DRAM = utilization, utilization*7/8, utilization/2, utilization/4, utilization/8
	held.Used, held.Watts, held.LinkErrors = used*GiB, watts, float64(gpu)
	held.NVLink, held.PCIeTX, held.PCIeRX = utilization*1e9, utilization*2e9, utilization*4e9
	held.Celsius, held.MemoryCelsius, held.Hertz = 30+utilization*40, 35+utilization*40, 1980e6
	return Device{exporter.Device{GPU: gpu, UUID: fmt.Sprintf("GPU-%d%d000000-1111-4222-8333-444455556666", n, gpu), Model: H100}, held, resting, 0}
}

// slowed has a reason for its clocks while a job holds it.
func slowed(d Device, events int) Device {
	d.Held.ClockEvents = events
	return d
}

func faltering(d Device, minute int) Device {
	d.Falters = minute
	return d
}

// migDevice is an instance of n3's only GPU, which draws 200 W in all.
func migDevice(instance int, engine float64) Device {
	use := exporter.Use{Engine: engine, SM: engine / 2, Used: 5 * GiB, Size: 20 * GiB, Watts: 200, Limit: 400, Celsius: 40, MemoryCelsius: 45, Hertz: 1410e6}
	return Device{exporter.Device{UUID: "GPU-30000000-1111-4222-8333-444455556666", Model: "NVIDIA A100-SXM4-40GB", Profile: "3g.20gb", Instance: instance}, use, use, 0}
}

// gb200Device is one whose exporter tells no power limit.
func gb200Device(gpu, xid int) Device {
	use := exporter.Use{Size: 186 * GiB, Watts: 150, Celsius: 30, MemoryCelsius: 30, Hertz: 345e6, Xid: xid, RowRemapFailed: xid != 0, LinkErrors: float64(xid)}
	return Device{exporter.Device{GPU: gpu, UUID: fmt.Sprintf("GPU-4%d000000-1111-4222-8333-444455556666", gpu), Model: "NVIDIA GB200"}, use, use, 0}
}

// ExporterID is the device's name in the mapping.
func (d *Device) ExporterID() string {
	if d.Profile != "" {
		return fmt.Sprintf("%d.%d", d.GPU, d.Instance)
	}
	return fmt.Sprint(d.GPU)
}

// Holders returns the jobs that hold a device at a minute.
func Holders(p Place, minute int) []*Job {
	var found []*Job
	for i := range Jobs {
		j := &Jobs[i]
		for _, h := range j.Holds {
			if h == p && j.From <= minute && minute < j.To {
				found = append(found, j)
			}
		}
	}
	return found
}

// At returns the device's use at a minute, with the energy since minute 0.
func (d *Device) At(p Place, minute int) exporter.Use {
	energy, use := 1e6, d.Free
	for m := 0; m <= minute; m++ {
		use = d.Free
		if len(Holders(p, m)) > 0 {
			use = d.HeldAt(m)
		}
		if d.falters(m) {
			use.RowRemapFailed = true
			use.Xid, use.LinkErrors, use.Replays = FaultXid, use.LinkErrors+d.LinkErrors(m), 2*d.LinkErrors(m)
		}
		if m > 0 {
			energy += 60 * use.Watts
		}
	}
	use.Joules = energy
	return use
}

// FaultXid is the Xid of a GPU that falters, of which its agent makes no problem.
const FaultXid = 31

// LinkErrors grows each minute from when the GPU falters.
func (d *Device) LinkErrors(minute int) float64 { return max(0, float64(minute-d.Falters+1)) }

func (d *Device) falters(minute int) bool { return d.Falters > 0 && minute >= d.Falters }

// Silent says whether the node's exporter answers nothing at a minute: it starts again.
func (n *Node) Silent(minute int) bool { return n.Name == "n1" && minute == 50 }

// OldNamespace says whether the node's exporter runs with --use-old-namespace at a minute:
// on n1 from its restart on, on n2 from minute 40, on n4 always.
func (n *Node) OldNamespace(minute int) bool {
	return n.Name == "n4" || n.Name == "n2" && minute >= 40 || n.Name == "n1" && minute >= 50
}

// HeldAt is the device's use at a minute at which a job holds it.
func (d *Device) HeldAt(minute int) exporter.Use {
	use := d.Held
	if d.falters(minute) {
		use.Utilization, use.Engine, use.NVLink, use.Watts, use.Used = use.Utilization/3, use.Engine/3, use.NVLink/3, use.Watts/3, use.Used/2
	}
	return use
}

// Whole says whether the device is a whole GPU.
func (d *Device) Whole() bool { return d.Profile == "" }

// OwnUUID is the device's own: of a MIG instance not the GPU's.
func (d *Device) OwnUUID() string {
	if d.Whole() {
		return d.UUID
	}
	return fmt.Sprintf("MIG-3%d000000-1111-4222-8333-444455556666", d.Instance)
}

// Idle says whether the device does nothing when a job holds it.
func (d *Device) Idle() bool { return d.Held.Utilization == 0 && d.Held.Engine == 0 }
