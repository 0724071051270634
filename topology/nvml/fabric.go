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

// fabric reads the newest form of the fabric information that the driver has. If
// the driver refuses a form, the next older one is tried. Any other error is the
// answer, because an older form would hide it. NOT_SUPPORTED means that there is no
// fabric. A driver without any of these calls is older than all fabrics.
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

// withoutFabric returns the fabric for a return code other than success.
func withoutFabric(ret nvml.Return) (topology.Fabric, error) {
	if ret == nvml.ERROR_NOT_SUPPORTED {
		return topology.Fabric{State: topology.FabricNotSupported}, nil
	}
	return topology.Fabric{}, failure(ret)
}

// fabricOf copies NVML's fields. Status means something once the registration is
// completed. A state that NVML's header does not have is an error: it must not be
// taken for completed.
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

// chassis returns the chassis' serial number or the rack's GUID; the other one is
// empty. go-nvml knows only the first version of the structure, where the field is
// the rack's GUID. The second version has the same layout with the chassis' serial
// number in this field. Both have 13 bytes on Blackwell. So printable text is a
// serial number.
func chassis(raw [16]uint8) (serial, guid string) {
	s := strings.TrimRight(string(raw[:]), "\x00")
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return "", hex.EncodeToString(raw[:])
		}
	}
	return strings.TrimSpace(s), ""
}
