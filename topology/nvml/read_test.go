//go:build cgo

package nvml

import (
	"errors"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// fakeMachine answers from fields.
type fakeMachine struct{ gpus []fakeGPU }

func (fakeMachine) driverVersion() (string, nvml.Return)  { return "580.65.06", nvml.SUCCESS }
func (fakeMachine) libraryVersion() (string, nvml.Return) { return "13.580.65.06", nvml.SUCCESS }
func (fakeMachine) cudaVersion() (int, nvml.Return)       { return 13010, nvml.SUCCESS }
func (m fakeMachine) count() (int, error)                 { return len(m.gpus), nil }
func (m fakeMachine) device(i int) (device, error) {
	if m.gpus[i].lost {
		return nil, errors.New("open GPU 1: ERROR_GPU_IS_LOST")
	}
	return m.gpus[i], nil
}

type fakeGPU struct {
	nvml.Device // nil: a call that the fake does not answer panics
	uuid        string
	minor       int
	lost        bool
	noNUMA      bool
	fab         topology.Fabric
	fabErr      error
}

func (g fakeGPU) GetUUID() (string, nvml.Return)     { return g.uuid, nvml.SUCCESS }
func (g fakeGPU) GetMinorNumber() (int, nvml.Return) { return g.minor, nvml.SUCCESS }
func (g fakeGPU) GetName() (string, nvml.Return)     { return "NVIDIA GB200", nvml.SUCCESS }
func (g fakeGPU) GetMemoryInfo() (nvml.Memory, nvml.Return) {
	return nvml.Memory{Total: 4 << 30}, nvml.SUCCESS
}
func (g fakeGPU) GetMemoryAffinity(int, nvml.AffinityScope) ([]uint, nvml.Return) {
	if g.noNUMA {
		return nil, nvml.ERROR_NOT_SUPPORTED
	}
	return []uint{0x3fc02, 1}, nvml.SUCCESS
}
func (g fakeGPU) GetCpuAffinity(int) ([]uint, nvml.Return) {
	return []uint{0xff, 1 << 63, 1}, nvml.SUCCESS
}
func (g fakeGPU) GetMigMode() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_NOT_SUPPORTED }
func (g fakeGPU) GetPciInfo() (nvml.PciInfo, nvml.Return) {
	var p nvml.PciInfo
	for i, c := range "00000009:01:00.0" {
		p.BusId[i] = int8(c)
	}
	return p, nvml.SUCCESS
}

func (g fakeGPU) GetNvLinkState(i int) (nvml.EnableState, nvml.Return) {
	if i > 1 {
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	return nvml.FEATURE_ENABLED, nvml.SUCCESS
}

func (g fakeGPU) GetNvLinkRemoteDeviceType(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
	return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
}
func (g fakeGPU) fabric() (topology.Fabric, error)      { return g.fab, g.fabErr }
func (g fakeGPU) platform() (*topology.Platform, error) { return nil, errUnsupported }
func (g fakeGPU) ancestor(device) (nvml.GpuTopologyLevel, nvml.Return) {
	return nvml.TOPOLOGY_NODE, nvml.SUCCESS
}

func TestRead(t *testing.T) {
	r, err := read(fakeMachine{[]fakeGPU{
		{uuid: "GPU-a", minor: 3, fabErr: errors.New("ERROR_TIMEOUT")},
		{lost: true},
		{uuid: "GPU-c", minor: 1, noNUMA: true, fabErr: errUnsupported},
	}}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	three, one, numa := 3, 1, 1
	links := []topology.NVLink{{Link: 0, Remote: "switch"}, {Link: 1, Remote: "switch"}}
	base := topology.GPU{PCIBusID: "00000009:01:00.0", Product: "NVIDIA GB200", MemoryMiB: 4096, CPUAffinity: "0-7,127-128", NVLinks: links,
		Peers: []topology.Peer{{PCIBusID: "00000009:01:00.0", Ancestor: "node"}}}
	a, c := base, base
	a.UUID, a.Minor, a.NUMANode = "GPU-a", &three, &numa
	c.Index, c.UUID, c.Minor = 2, "GPU-c", &one
	want := &topology.Node{DriverVersion: "580.65.06", NVMLVersion: "13.580.65.06", CUDAVersion: "13.1", GPUs: []topology.GPU{a, c}, Problems: []topology.Problem{
		{Reason: "FactUnreadable", Message: "fabric of GPU GPU-a: ERROR_TIMEOUT"},
		{Reason: "GPUUnreadable", Message: "open GPU 1: ERROR_GPU_IS_LOST"},
	}}
	if diff := cmp.Diff(want, r.node); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestFabricOf(t *testing.T) {
	uuid := [16]uint8{1}
	tests := []struct {
		state, health uint8
		status        nvml.Return
		want          topology.Fabric
	}{
		{0, 0, 0, topology.Fabric{State: topology.FabricNotSupported}},
		{1, 0, 0, topology.Fabric{State: topology.FabricNotStarted}},
		{2, 0, nvml.ERROR_UNKNOWN, topology.Fabric{State: topology.FabricInProgress}},
		{3, 0, 0, topology.Fabric{State: topology.FabricCompleted}},
		{3, 1, 0, topology.Fabric{State: topology.FabricCompleted, Health: topology.HealthHealthy}},
		{3, 2, 0, topology.Fabric{State: topology.FabricCompleted, Health: topology.HealthUnhealthy}},
		{3, 3, 0, topology.Fabric{State: topology.FabricCompleted, Health: topology.HealthLimitedCapacity}},
		{3, 9, 0, topology.Fabric{State: topology.FabricCompleted}},
		{3, 0, nvml.ERROR_UNKNOWN, topology.Fabric{State: topology.FabricCompleted, Status: "UNKNOWN"}},
		{3, 0, nvml.ERROR_NOT_READY, topology.Fabric{State: topology.FabricCompleted, Status: "NOT_READY"}},
		{3, 0, 500, topology.Fabric{State: topology.FabricCompleted, Status: "NVML error 500"}},
	}
	for _, tt := range tests {
		tt.want.ClusterUUID, tt.want.CliqueID = uuid, 7
		got, err := fabricOf(uuid, 7, tt.state, uint32(tt.status), 0, tt.health)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("state %d health %d (-want +got):\n%s", tt.state, tt.health, diff)
		}
	}
	if f, err := fabricOf(uuid, 7, 4, 0, 0, 0); err == nil {
		t.Errorf("a state that NVML's header does not have is taken for %q", f.State)
	}
}

func TestChassis(t *testing.T) {
	tests := []struct{ name, raw, serial, guid string }{
		{"serial number", "1820123456789\x00\x00\x00", "1820123456789", ""},
		{"none", strings.Repeat("\x00", 16), "", ""},
		{"GUID", "\x00\x01\xfe\xff-3456789\x00\x00\x00\x00", "", "0001feff2d3334353637383900000000"},
		{"GUID of letters but one", "182012345678\x80\x00\x00\x00", "", "31383230313233343536373880000000"},
	}
	for _, tt := range tests {
		if serial, guid := chassis([16]uint8([]byte(tt.raw))); serial != tt.serial || guid != tt.guid {
			t.Errorf("%s: %q, %q, want %q, %q", tt.name, serial, guid, tt.serial, tt.guid)
		}
	}
}

func TestCPUList(t *testing.T) {
	tests := []struct {
		words []uint
		want  string
	}{
		{nil, ""},
		{make([]uint, 512), ""},
		{[]uint{1}, "0"},
		{[]uint{0xf0f}, "0-3,8-11"},
		{[]uint{1 << 63, 1, 0}, "63-64"},
		{[]uint{^uint(0), ^uint(0)}, "0-127"},
		{append(make([]uint, 40), 1<<5), "2565"},
	}
	for _, tt := range tests {
		if got := cpuList(tt.words); got != tt.want {
			t.Errorf("%x: %q, want %q", tt.words, got, tt.want)
		}
	}
}
