//go:build cgo

package nvml

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// system is the real library.
type system struct {
	api nvml.Interface
	has symbols
}

func (s system) driverVersion() (string, nvml.Return) {
	return guarded(s.has, "nvmlSystemGetDriverVersion", s.api.SystemGetDriverVersion)
}

func (s system) libraryVersion() (string, nvml.Return) {
	return guarded(s.has, "nvmlSystemGetNVMLVersion", s.api.SystemGetNVMLVersion)
}

// cudaVersion returns 1000 x major + 10 x minor.
func (s system) cudaVersion() (int, nvml.Return) {
	return guarded(s.has, "nvmlSystemGetCudaDriverVersion_v2", s.api.SystemGetCudaDriverVersion_v2)
}

func (s system) count() (int, error) {
	n, ret := guarded(s.has, "nvmlDeviceGetCount_v2", s.api.DeviceGetCount)
	if ret != nvml.SUCCESS {
		return 0, fmt.Errorf("count GPUs: %s", code(ret))
	}
	return n, nil
}

// errGone: NVML itself no longer works. It was shut down, or the driver was
// unloaded or exchanged.
var errGone = errors.New("NVML has to be initialised again")

func (s system) device(i int) (device, error) {
	d, ret := guarded(s.has, "nvmlDeviceGetHandleByIndex_v2", func() (nvml.Device, nvml.Return) { return s.api.DeviceGetHandleByIndex(i) })
	switch ret {
	case nvml.SUCCESS:
		return gpu{d, s.has}, nil
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return nil, fmt.Errorf("open GPU %d: %s; %w", i, code(ret), errGone)
	}
	return nil, fmt.Errorf("open GPU %d: %s", i, code(ret))
}

// gpu is a device of the real library. Methods of the embedded device must not be
// called unguarded: every call that is made has a guarded method here.
type gpu struct {
	nvml.Device
	has symbols
}

func (g gpu) GetUUID() (string, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetUUID", g.Device.GetUUID)
}

func (g gpu) GetMinorNumber() (int, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetMinorNumber", g.Device.GetMinorNumber)
}

func (g gpu) GetPciInfo() (nvml.PciInfo, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetPciInfo_v3", g.Device.GetPciInfo)
}

func (g gpu) GetName() (string, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetName", g.Device.GetName)
}

func (g gpu) GetMemoryInfo() (nvml.Memory, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetMemoryInfo", g.Device.GetMemoryInfo)
}

func (g gpu) GetMemoryAffinity(n int, scope nvml.AffinityScope) ([]uint, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetMemoryAffinity", func() ([]uint, nvml.Return) { return g.Device.GetMemoryAffinity(n, scope) })
}

func (g gpu) GetCpuAffinity(n int) ([]uint, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetCpuAffinity", func() ([]uint, nvml.Return) { return g.Device.GetCpuAffinity(n) })
}

func (g gpu) GetNvLinkState(i int) (nvml.EnableState, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetNvLinkState", func() (nvml.EnableState, nvml.Return) { return g.Device.GetNvLinkState(i) })
}

func (g gpu) GetNvLinkRemoteDeviceType(i int) (nvml.IntNvLinkDeviceType, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetNvLinkRemoteDeviceType", func() (nvml.IntNvLinkDeviceType, nvml.Return) { return g.Device.GetNvLinkRemoteDeviceType(i) })
}

func (g gpu) GetNvLinkRemotePciInfo(i int) (nvml.PciInfo, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetNvLinkRemotePciInfo_v2", func() (nvml.PciInfo, nvml.Return) { return g.Device.GetNvLinkRemotePciInfo(i) })
}

func (g gpu) GetMigMode() (current, pending int, ret nvml.Return) {
	if !g.has["nvmlDeviceGetMigMode"] {
		return 0, 0, nvml.ERROR_FUNCTION_NOT_FOUND
	}
	return g.Device.GetMigMode()
}

func (g gpu) GetMaxMigDeviceCount() (int, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetMaxMigDeviceCount", g.Device.GetMaxMigDeviceCount)
}

func (g gpu) GetMigDeviceHandleByIndex(i int) (nvml.Device, nvml.Return) {
	d, ret := guarded(g.has, "nvmlDeviceGetMigDeviceHandleByIndex", func() (nvml.Device, nvml.Return) { return g.Device.GetMigDeviceHandleByIndex(i) })
	return gpu{d, g.has}, ret
}

func (g gpu) GetGpuInstanceId() (int, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetGpuInstanceId", g.Device.GetGpuInstanceId)
}

func (g gpu) GetComputeInstanceId() (int, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetComputeInstanceId", g.Device.GetComputeInstanceId)
}

func (g gpu) ancestor(other device) (nvml.GpuTopologyLevel, nvml.Return) {
	o, ok := other.(gpu)
	if !ok {
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	return guarded(g.has, "nvmlDeviceGetTopologyCommonAncestor", func() (nvml.GpuTopologyLevel, nvml.Return) { return g.GetTopologyCommonAncestor(o.Device) })
}
