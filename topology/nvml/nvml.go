//go:build cgo

// Package nvml reads a machine's GPUs through NVIDIA's management library into
// a topology.Node. It is the only importer of go-nvml.
//
// A call into the library can hang for ever on a sick GPU, and a call to a
// symbol that an older driver lacks ends the process: run it in a process of
// its own. Read makes no call after a failed initialisation, and asks for a
// symbol before each call that is newer than driver 470.
package nvml

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// Library is a loaded NVML.
type Library struct{ api nvml.Interface }

// Open loads and initialises NVML, from path or from where the loader finds
// libnvidia-ml.so.1.
func Open(path string) (*Library, error) {
	var options []nvml.LibraryOption
	if path != "" {
		options = append(options, nvml.WithLibraryPath(path))
	}
	api := nvml.New(options...)
	if ret := api.Init(); ret != nvml.SUCCESS {
		return nil, notInitialised(ret, path)
	}
	return &Library{api}, nil
}

// Close shuts NVML down.
func (l *Library) Close() error {
	if ret := l.api.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut NVML down: %s", code(ret))
	}
	return nil
}

// Read reads the machine. What cannot be read is absent, with a problem.
func (l *Library) Read() (*topology.Node, error) {
	return read(system{l.api})
}

// machine is what read needs of NVML; system implements it.
type machine interface {
	driverVersion() (string, nvml.Return)
	libraryVersion() (string, nvml.Return)
	count() (int, error)
	device(i int) (device, error)
}

// device is one GPU or MIG device. The methods are NVML's own, but for Fabric
// and Platform, whose newer calls need care.
type device interface {
	GetUUID() (string, nvml.Return)
	GetMinorNumber() (int, nvml.Return)
	GetPciInfo() (nvml.PciInfo, nvml.Return)
	GetName() (string, nvml.Return)
	GetMemoryInfo() (nvml.Memory, nvml.Return)
	GetMemoryAffinity(int, nvml.AffinityScope) ([]uint, nvml.Return)
	GetCpuAffinity(int) ([]uint, nvml.Return)
	GetNvLinkState(int) (nvml.EnableState, nvml.Return)
	GetNvLinkRemoteDeviceType(int) (nvml.IntNvLinkDeviceType, nvml.Return)
	GetNvLinkRemotePciInfo(int) (nvml.PciInfo, nvml.Return)
	GetMigMode() (int, int, nvml.Return)
	GetMaxMigDeviceCount() (int, nvml.Return)
	GetMigDeviceHandleByIndex(int) (nvml.Device, nvml.Return)
	fabric() (topology.Fabric, error)
	platform() (*topology.Platform, error)
	has(symbol string) bool
}

// system is the real library.
type system struct{ api nvml.Interface }

func (s system) driverVersion() (string, nvml.Return)  { return s.api.SystemGetDriverVersion() }
func (s system) libraryVersion() (string, nvml.Return) { return s.api.SystemGetNVMLVersion() }

func (s system) count() (int, error) {
	n, ret := s.api.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return 0, fmt.Errorf("count GPUs: %s", code(ret))
	}
	return n, nil
}

func (s system) device(i int) (device, error) {
	d, ret := s.api.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("open GPU %d: %s", i, code(ret))
	}
	return gpu{d, s.api}, nil
}

// gpu is a device of the real library.
type gpu struct {
	nvml.Device
	api nvml.Interface
}

func (g gpu) has(symbol string) bool { return g.api.Extensions().LookupSymbol(symbol) == nil }

// fabric reads the newest form of the fabric information that the driver has.
// An error that is no refusal of the form is the answer: an older form would
// hide it.
func (g gpu) fabric() (topology.Fabric, error) {
	if g.has("nvmlDeviceGetGpuFabricInfoV") {
		v3, ret := g.GetGpuFabricInfoV().V3()
		if ret != nvml.ERROR_ARGUMENT_VERSION_MISMATCH {
			if err := failure(ret); err != nil {
				return topology.Fabric{}, err
			}
			return fabricOf(v3.ClusterUuid, v3.CliqueId, v3.State, v3.Status, v3.HealthSummary)
		}
		v2, ret := g.GetGpuFabricInfoV().V2()
		if ret != nvml.ERROR_ARGUMENT_VERSION_MISMATCH {
			if err := failure(ret); err != nil {
				return topology.Fabric{}, err
			}
			return fabricOf(v2.ClusterUuid, v2.CliqueId, v2.State, v2.Status, 0)
		}
	}
	if !g.has("nvmlDeviceGetGpuFabricInfo") {
		return topology.Fabric{}, errUnsupported
	}
	info, ret := g.GetGpuFabricInfo()
	if err := failure(ret); err != nil {
		return topology.Fabric{}, err
	}
	return fabricOf(info.ClusterUuid, info.CliqueId, info.State, info.Status, 0)
}

// fabricOf copies NVML's fields. Status means something once the registration
// is completed. A state that is none of NVML's header is an error: it must not
// be taken for completed.
func fabricOf(cluster [16]uint8, clique uint32, state uint8, status uint32, health uint8) (topology.Fabric, error) {
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
	if !g.has("nvmlDeviceGetPlatformInfo") {
		return nil, errUnsupported
	}
	info, ret := g.GetPlatformInfo()
	if err := failure(ret); err != nil {
		return nil, err
	}
	return &topology.Platform{ChassisSerial: chassis(info.ChassisSerialNumber), Slot: int(info.SlotNumber), Tray: int(info.TrayIndex), HostID: int(info.HostId)}, nil
}

// chassis reads what names the chassis. go-nvml asks for the first version of
// the structure and knows no other; the second is laid out alike and calls the
// rack's GUID the chassis' serial number, 13 bytes both on Blackwell. Printable
// text stays text, other bytes become hex digits.
func chassis(raw [16]uint8) string {
	s := strings.TrimRight(string(raw[:]), "\x00")
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return hex.EncodeToString(raw[:])
		}
	}
	return strings.TrimSpace(s)
}
