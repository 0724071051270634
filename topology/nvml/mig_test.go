//go:build cgo

package nvml

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// oneDevice is a machine of one GPU.
type oneDevice struct {
	fakeMachine
	d device
}

func (m oneDevice) device(int) (device, error) { return m.d, nil }

// migGPU is a GPU with MIG on: slots of which some hold an instance.
type migGPU struct {
	fakeGPU
	slots map[int]migDevice
}

func (migGPU) GetMigMode() (int, int, nvml.Return)      { return nvml.DEVICE_MIG_ENABLE, 1, nvml.SUCCESS }
func (migGPU) GetMaxMigDeviceCount() (int, nvml.Return) { return 7, nvml.SUCCESS }
func (g migGPU) GetMigDeviceHandleByIndex(i int) (nvml.Device, nvml.Return) {
	d, ok := g.slots[i]
	if !ok {
		return nil, nvml.ERROR_NOT_FOUND
	}
	return d, nvml.SUCCESS
}

type migDevice struct {
	nvml.Device
	uuid, name string
	gi, ci     int
	ret        nvml.Return
}

func (d migDevice) GetUUID() (string, nvml.Return)           { return d.uuid, nvml.SUCCESS }
func (d migDevice) GetName() (string, nvml.Return)           { return d.name, nvml.SUCCESS }
func (d migDevice) GetGpuInstanceId() (int, nvml.Return)     { return d.gi, d.ret }
func (d migDevice) GetComputeInstanceId() (int, nvml.Return) { return d.ci, nvml.SUCCESS }

func TestReadMIG(t *testing.T) {
	const product = "NVIDIA A100-SXM4-40GB"
	d := migGPU{fakeGPU: fakeGPU{uuid: "GPU-a"}, slots: map[int]migDevice{
		0: {uuid: "MIG-b", name: product + " MIG 2g.10gb", gi: 5},
		2: {uuid: "MIG-d", name: product + " MIG 1c.3g.20gb", gi: 2, ci: 1},
		3: {uuid: "MIG-c", name: product + " MIG 1c.3g.20gb", gi: 2},
		5: {uuid: "MIG-x", ret: nvml.ERROR_GPU_IS_LOST},
	}}
	var found gpuLayout
	_, slots, err := find(oneDevice{d: d}, 0, &found)
	if err != nil {
		t.Fatal(err)
	}
	r := reader{node: &topology.Node{}, gpu: topology.GPU{UUID: "GPU-a"}, d: d}
	r.mig(&found, slots)
	want := []topology.MIGInstance{
		{UUID: "MIG-c", Profile: "1c.3g.20gb", GPUInstanceID: 2},
		{UUID: "MIG-d", Profile: "1c.3g.20gb", GPUInstanceID: 2, ComputeInstanceID: 1},
		{UUID: "MIG-b", Profile: "2g.10gb", GPUInstanceID: 5},
	}
	if diff := cmp.Diff(want, r.gpu.MIG); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	problems := []topology.Problem{{Reason: "FactUnreadable", Message: "MIG GPU instance id of GPU GPU-a: GPU_IS_LOST"}}
	if diff := cmp.Diff(problems, r.node.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestReadMIGEmpty tells a GPU with MIG on and no instance from one without MIG, and
// from one whose instances cannot be read.
func TestReadMIGEmpty(t *testing.T) {
	for name, tt := range map[string]struct {
		d    device
		want bool
	}{
		"no instance":       {migGPU{fakeGPU: fakeGPU{uuid: "GPU-a"}}, true},
		"one is unreadable": {migGPU{fakeGPU: fakeGPU{uuid: "GPU-a"}, slots: map[int]migDevice{1: {uuid: "MIG-x", ret: nvml.ERROR_GPU_IS_LOST}}}, false},
		"no MIG":            {fakeGPU{uuid: "GPU-a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var found gpuLayout
			_, slots, err := find(oneDevice{d: tt.d}, 0, &found)
			if err != nil {
				t.Fatal(err)
			}
			r := reader{node: &topology.Node{}, gpu: topology.GPU{UUID: "GPU-a"}, d: tt.d}
			r.mig(&found, slots)
			if r.gpu.MIGEmpty != tt.want || len(r.gpu.MIG) > 0 {
				t.Errorf("%+v, want empty %v", r.gpu, tt.want)
			}
		})
	}
}

// linkGPU has NVLinks: two to other GPUs, one off, one to what has no name.
type linkGPU struct {
	fakeGPU
	lostAt int
}

func (g linkGPU) GetNvLinkState(i int) (nvml.EnableState, nvml.Return) {
	switch {
	case g.lostAt > 0 && i >= g.lostAt:
		return 0, nvml.ERROR_GPU_IS_LOST
	case i == 2:
		return nvml.FEATURE_DISABLED, nvml.SUCCESS
	case i > 3:
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	return nvml.FEATURE_ENABLED, nvml.SUCCESS
}

func (linkGPU) GetNvLinkRemoteDeviceType(i int) (nvml.IntNvLinkDeviceType, nvml.Return) {
	if i == 3 {
		return nvml.NVLINK_DEVICE_TYPE_UNKNOWN, nvml.SUCCESS
	}
	return nvml.NVLINK_DEVICE_TYPE_GPU, nvml.SUCCESS
}

func (g linkGPU) GetNvLinkRemotePciInfo(int) (nvml.PciInfo, nvml.Return) { return g.GetPciInfo() }

func TestReadLinks(t *testing.T) {
	const pci = "00000009:01:00.0"
	links := []topology.NVLink{{Link: 0, Remote: "gpu", RemotePCIBusID: pci}, {Link: 1, Remote: "gpu", RemotePCIBusID: pci}, {Link: 3, Remote: "unknown"}}
	tests := []struct {
		name     string
		gpu      linkGPU
		want     []topology.NVLink
		problems int
	}{
		{"all", linkGPU{}, links, 0},
		{"GPU lost meanwhile is one problem", linkGPU{lostAt: 1}, links[:1], 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := reader{node: &topology.Node{}, d: tt.gpu}
			r.links()
			if diff := cmp.Diff(tt.want, r.gpu.NVLinks); diff != "" {
				t.Errorf("links (-want +got):\n%s", diff)
			}
			if len(r.node.Problems) != tt.problems {
				t.Errorf("problems %v, want %d", r.node.Problems, tt.problems)
			}
		})
	}
}
