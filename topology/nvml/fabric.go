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

// fabricOf reads the newest form of the fabric information that the driver has. If
// the driver refuses a form, the next older one is tried. Any other error is the
// answer, because an older form would hide it. NOT_SUPPORTED means that there is no
// fabric. A driver without any of these calls is older than all fabrics.
func fabricOf(d nvml.Device, has symbols) (topology.Fabric, error) {
	var info nvml.GpuFabricInfo_v3
	ret := nvml.ERROR_NOT_SUPPORTED
	if has[fabricInfo] {
		ret = nvml.ERROR_ARGUMENT_VERSION_MISMATCH
	}
	if has[fabricInfoV] {
		if info, ret = d.GetGpuFabricInfoV().V3(); ret == nvml.ERROR_ARGUMENT_VERSION_MISMATCH {
			var v2 nvml.GpuFabricInfo_v2
			v2, ret = d.GetGpuFabricInfoV().V2()
			info = nvml.GpuFabricInfo_v3{ClusterUuid: v2.ClusterUuid, CliqueId: v2.CliqueId, State: v2.State, Status: v2.Status, HealthMask: v2.HealthMask}
		}
	}
	if ret == nvml.ERROR_ARGUMENT_VERSION_MISMATCH && has[fabricInfo] {
		var v1 nvml.GpuFabricInfo
		v1, ret = d.GetGpuFabricInfo()
		info = nvml.GpuFabricInfo_v3{ClusterUuid: v1.ClusterUuid, CliqueId: v1.CliqueId, State: v1.State, Status: v1.Status}
	}
	switch ret {
	case nvml.SUCCESS:
		return fabricFrom(&info)
	case nvml.ERROR_NOT_SUPPORTED:
		return topology.Fabric{State: topology.FabricNotSupported}, nil
	}
	return topology.Fabric{}, failure(ret)
}

// fabricFrom copies NVML's fields. Status and health mean something once the registration
// is completed. A state that NVML's header does not have is an error: it must not be
// taken for completed.
func fabricFrom(info *nvml.GpuFabricInfo_v3) (topology.Fabric, error) {
	states := [...]topology.FabricState{
		nvml.GPU_FABRIC_STATE_NOT_SUPPORTED: topology.FabricNotSupported,
		nvml.GPU_FABRIC_STATE_NOT_STARTED:   topology.FabricNotStarted,
		nvml.GPU_FABRIC_STATE_IN_PROGRESS:   topology.FabricInProgress,
		nvml.GPU_FABRIC_STATE_COMPLETED:     topology.FabricCompleted,
	}
	healths := map[uint8]topology.Health{
		nvml.GPU_FABRIC_HEALTH_SUMMARY_HEALTHY:          topology.HealthHealthy,
		nvml.GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY:        topology.HealthUnhealthy,
		nvml.GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY: topology.HealthLimitedCapacity,
	}
	if int(info.State) >= len(states) {
		return topology.Fabric{}, fmt.Errorf("state %d is none that this version knows (0 to %d)", info.State, len(states)-1)
	}
	f := topology.Fabric{ClusterUUID: topology.UUID(info.ClusterUuid), CliqueID: info.CliqueId, State: states[info.State]} //nolint:gosec // the length is checked above
	if f.State == topology.FabricCompleted {
		f.Health, f.HealthFields = healths[info.HealthSummary], healthOf(info.HealthMask)
	}
	if ret := nvml.Return(int32(info.Status)); f.State == topology.FabricCompleted && ret != nvml.SUCCESS { //nolint:gosec // NVML's return codes fit
		f.Status = code(ret)
	}
	return f, nil
}

// platformOf reads where the machine sits.
func platformOf(d nvml.Device) (*topology.Platform, error) {
	info, ret := d.GetPlatformInfo()
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
