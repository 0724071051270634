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
	"errors"
	"fmt"

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
		if ret == nvml.ERROR_LIBRARY_NOT_FOUND {
			where := "libnvidia-ml.so.1 was not found"
			if path != "" {
				where = path + " was not found or is not a library"
			}
			return nil, fmt.Errorf("load NVML: %s; is the NVIDIA driver installed here, and in a container NVIDIA_VISIBLE_DEVICES set?", where)
		}
		return nil, fmt.Errorf("initialise NVML: %s", code(ret))
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
	versions() (driver, library string)
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
	GetNumaNodeId() (int, nvml.Return)
	GetCpuAffinity(int) ([]uint, nvml.Return)
	GetNvLinkState(int) (nvml.EnableState, nvml.Return)
	GetNvLinkRemoteDeviceType(int) (nvml.IntNvLinkDeviceType, nvml.Return)
	GetNvLinkRemotePciInfo(int) (nvml.PciInfo, nvml.Return)
	GetMigMode() (int, int, nvml.Return)
	GetMaxMigDeviceCount() (int, nvml.Return)
	GetMigDeviceHandleByIndex(int) (nvml.Device, nvml.Return)
	fabric() (*topology.Fabric, error)
	platform() (*topology.Platform, error)
	has(symbol string) bool
}

// system is the real library.
type system struct{ api nvml.Interface }

func (s system) versions() (driver, library string) {
	driver, _ = s.api.SystemGetDriverVersion()
	library, _ = s.api.SystemGetNVMLVersion()
	return driver, library
}

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

// errUnsupported is a fact that this GPU or driver does not have: no problem.
var errUnsupported = errors.New("not supported")

// fabric reads the newest form of the fabric information that the driver has.
func (g gpu) fabric() (*topology.Fabric, error) {
	if g.has("nvmlDeviceGetGpuFabricInfoV") {
		if info, ret := g.GetGpuFabricInfoV().V3(); ret == nvml.SUCCESS {
			return fabricOf(info.ClusterUuid, info.CliqueId, info.State, info.Status, info.HealthSummary), nil
		}
		if info, ret := g.GetGpuFabricInfoV().V2(); ret == nvml.SUCCESS {
			return fabricOf(info.ClusterUuid, info.CliqueId, info.State, info.Status, 0), nil
		}
	}
	if !g.has("nvmlDeviceGetGpuFabricInfo") {
		return nil, errUnsupported
	}
	info, ret := g.GetGpuFabricInfo()
	if err := failure(ret); err != nil {
		return nil, err
	}
	return fabricOf(info.ClusterUuid, info.CliqueId, info.State, info.Status, 0), nil
}

// fabricOf copies NVML's fields. Status means something once the registration
// is completed.
func fabricOf(cluster [16]uint8, clique uint32, state uint8, status uint32, health uint8) *topology.Fabric {
	f := &topology.Fabric{ClusterUUID: topology.UUID(cluster), CliqueID: clique}
	switch state {
	case nvml.GPU_FABRIC_STATE_NOT_SUPPORTED:
		f.State = topology.FabricNotSupported
	case nvml.GPU_FABRIC_STATE_NOT_STARTED:
		f.State = topology.FabricNotStarted
	case nvml.GPU_FABRIC_STATE_IN_PROGRESS:
		f.State = topology.FabricInProgress
	default:
		f.State = topology.FabricCompleted
		if ret := nvml.Return(int32(status)); ret != nvml.SUCCESS { //nolint:gosec // NVML's return codes fit
			f.Status = code(ret)
		}
	}
	f.Health = map[uint8]topology.Health{
		nvml.GPU_FABRIC_HEALTH_SUMMARY_HEALTHY:          topology.HealthHealthy,
		nvml.GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY:        topology.HealthUnhealthy,
		nvml.GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY: topology.HealthLimitedCapacity,
	}[health]
	return f
}

func (g gpu) platform() (*topology.Platform, error) {
	if !g.has("nvmlDeviceGetPlatformInfo") {
		return nil, errUnsupported
	}
	info, ret := g.GetPlatformInfo()
	if err := failure(ret); err != nil {
		return nil, err
	}
	return &topology.Platform{ChassisSerial: text(info.ChassisSerialNumber[:]), Slot: int(info.SlotNumber), Tray: int(info.TrayIndex), HostID: int(info.HostId)}, nil
}

// failure sorts NVML's return codes: nil, errUnsupported, or what went wrong.
func failure(ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return errUnsupported
	}
	return errors.New(code(ret))
}

// code names a return code as NVML's header does, without the prefix.
func code(ret nvml.Return) string { return ret.String() }
