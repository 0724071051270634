//go:build cgo

package nvml

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// fabric reads the newest form of the fabric information that the driver has.
// An error that is no refusal of the form is the answer: an older form would
// hide it. That the GPU does not support it says that there is no fabric, and so
// does a driver from before there were any.
func (g gpu) fabric() (topology.Fabric, error) {
	if g.has["nvmlDeviceGetGpuFabricInfoV"] {
		v3, ret := g.GetGpuFabricInfoV().V3()
		if ret != nvml.ERROR_ARGUMENT_VERSION_MISMATCH {
			if ret != nvml.SUCCESS {
				return withoutFabric(ret)
			}
			return fabricOf(v3.ClusterUuid, v3.CliqueId, v3.State, v3.Status, v3.HealthMask, v3.HealthSummary)
		}
		v2, ret := g.GetGpuFabricInfoV().V2()
		if ret != nvml.ERROR_ARGUMENT_VERSION_MISMATCH {
			if ret != nvml.SUCCESS {
				return withoutFabric(ret)
			}
			return fabricOf(v2.ClusterUuid, v2.CliqueId, v2.State, v2.Status, v2.HealthMask, 0)
		}
	}
	if !g.has["nvmlDeviceGetGpuFabricInfo"] {
		if g.has["nvmlDeviceGetGpuFabricInfoV"] {
			return topology.Fabric{}, errUnsupported
		}
		return withoutFabric(nvml.ERROR_NOT_SUPPORTED)
	}
	info, ret := g.GetGpuFabricInfo()
	if ret != nvml.SUCCESS {
		return withoutFabric(ret)
	}
	return fabricOf(info.ClusterUuid, info.CliqueId, info.State, info.Status, 0, 0)
}

// withoutFabric is what a return code other than success says of the fabric.
func withoutFabric(ret nvml.Return) (topology.Fabric, error) {
	if ret == nvml.ERROR_NOT_SUPPORTED {
		return topology.Fabric{State: topology.FabricNotSupported}, nil
	}
	return topology.Fabric{}, failure(ret)
}

// fabricOf copies NVML's fields. Status means something once the registration
// is completed. A state that is none of NVML's header is an error: it must not
// be taken for completed.
func fabricOf(cluster [16]uint8, clique uint32, state uint8, status, mask uint32, health uint8) (topology.Fabric, error) {
	states := [...]topology.FabricState{
		nvml.GPU_FABRIC_STATE_NOT_SUPPORTED: topology.FabricNotSupported,
		nvml.GPU_FABRIC_STATE_NOT_STARTED:   topology.FabricNotStarted,
		nvml.GPU_FABRIC_STATE_IN_PROGRESS:   topology.FabricInProgress,
		nvml.GPU_FABRIC_STATE_COMPLETED:     topology.FabricCompleted,
	}
	if int(state) >= len(states) {
		return topology.Fabric{}, fmt.Errorf("state %d is none that this version knows (0 to %d)", state, len(states)-1)
	}
	f := topology.Fabric{ClusterUUID: topology.UUID(cluster), CliqueID: clique, State: states[state]}  //nolint:gosec // the length is checked above
	if ret := nvml.Return(int32(status)); f.State == topology.FabricCompleted && ret != nvml.SUCCESS { //nolint:gosec // NVML's return codes fit
		f.Status = code(ret)
	}
	f.HealthFields = healthOf(mask)
	switch health {
	case nvml.GPU_FABRIC_HEALTH_SUMMARY_HEALTHY:
		f.Health = topology.HealthHealthy
	case nvml.GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY:
		f.Health = topology.HealthUnhealthy
	case nvml.GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY:
		f.Health = topology.HealthLimitedCapacity
	}
	return f, nil
}

func (g gpu) platform() (*topology.Platform, error) {
	if !g.has["nvmlDeviceGetPlatformInfo"] {
		return nil, errUnsupported
	}
	info, ret := g.GetPlatformInfo()
	if ret == nvml.ERROR_ARGUMENT_VERSION_MISMATCH {
		return nil, errors.New("the driver has no longer the version of the structure that this quoin asks for; use a newer quoin")
	}
	if err := failure(ret); err != nil {
		return nil, err
	}
	serial, guid := chassis(info.ChassisSerialNumber)
	return &topology.Platform{ChassisSerial: serial, RackGUID: guid, Slot: int(info.SlotNumber), Tray: int(info.TrayIndex), HostID: int(info.HostId)}, nil
}

// chassis reads what names the chassis: one of the two is empty. go-nvml asks for
// the first version of the structure, whose field is the rack's GUID, and knows no
// other; the second is laid out alike and has the chassis' serial number there, 13
// bytes both on Blackwell. So what is printable is a serial number.
func chassis(raw [16]uint8) (serial, guid string) {
	s := strings.TrimRight(string(raw[:]), "\x00")
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return "", hex.EncodeToString(raw[:])
		}
	}
	return strings.TrimSpace(s), ""
}
