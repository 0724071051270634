//go:build cgo

// Package nvml reads a machine's GPUs through NVIDIA's management library into
// a topology.Node, and what goes with them from /proc and /sys: the device files
// of MIG instances and the processor packages. It is the only importer of
// go-nvml.
//
// A call into the library can hang for ever on a sick GPU, and a call to a
// symbol that an older driver lacks ends the process: run it in a process of
// its own. Read makes no call after a failed initialisation, and asks for a
// symbol before each call that is newer than driver 470.
package nvml

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// Library is a loaded NVML.
type Library struct {
	api      nvml.Interface
	root     string
	sockets  socketReader
	xids     *xids
	watching atomic.Bool
}

// Options say which library is opened, and where the machine's files are.
type Options struct {
	// Path is that of the library; empty for where the loader finds
	// libnvidia-ml.so.1.
	Path string
	// Root is the folder in which the machine's proc and sys are; empty for /.
	Root string
}

// Open loads and initialises NVML.
func Open(o Options) (*Library, error) {
	var options []nvml.LibraryOption
	if o.Path != "" {
		options = append(options, nvml.WithLibraryPath(o.Path))
	}
	if o.Root == "" {
		o.Root = "/"
	}
	api := nvml.New(options...)
	if ret := api.Init(); ret != nvml.SUCCESS {
		return nil, notInitialised(ret, o.Path)
	}
	return &Library{api: api, root: o.Root, sockets: socketReader{root: o.Root}, xids: newXids(api)}, nil
}

// WatchXids has Read report Xid events that come from now on. It returns when
// NVML has no events, or some seconds after the end of ctx.
func (l *Library) WatchXids(ctx context.Context) {
	l.watching.Store(true)
	l.xids.watch(ctx)
}

// Close shuts NVML down, unless a wait for events may be under way: that must not
// meet a shutdown, and ends with the process.
func (l *Library) Close() error {
	if l.watching.Load() {
		return nil
	}
	if ret := l.api.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut NVML down: %s", code(ret))
	}
	return nil
}

// Read reads the machine. What cannot be read is absent, with a problem.
func (l *Library) Read() (*topology.Node, error) {
	n, devices, err := read(system{l.api}, l.root)
	if err != nil {
		return nil, err
	}
	for i, d := range devices {
		if g, ok := d.(gpu); ok {
			l.xids.add(n.GPUs[i].UUID, g.Device)
		}
	}
	sockets, err := l.sockets.read()
	if note(n, "sockets", err) {
		n.Sockets = sockets
	}
	l.xids.report(n)
	return n, nil
}

// machine is what read needs of NVML; system implements it.
type machine interface {
	driverVersion() (string, nvml.Return)
	libraryVersion() (string, nvml.Return)
	cudaVersion() (int, nvml.Return)
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
	ancestor(device) (nvml.GpuTopologyLevel, nvml.Return)
	has(symbol string) bool
}

// system is the real library.
type system struct{ api nvml.Interface }

func (s system) driverVersion() (string, nvml.Return)  { return s.api.SystemGetDriverVersion() }
func (s system) libraryVersion() (string, nvml.Return) { return s.api.SystemGetNVMLVersion() }

// cudaVersion is a thousand times the major and ten times the minor version.
func (s system) cudaVersion() (int, nvml.Return) {
	if s.api.Extensions().LookupSymbol("nvmlSystemGetCudaDriverVersion_v2") != nil {
		return 0, nvml.ERROR_FUNCTION_NOT_FOUND
	}
	return s.api.SystemGetCudaDriverVersion_v2()
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

func (g gpu) ancestor(other device) (nvml.GpuTopologyLevel, nvml.Return) {
	o, ok := other.(gpu)
	if !ok {
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	return g.GetTopologyCommonAncestor(o.Device)
}

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
			return fabricOf(v3.ClusterUuid, v3.CliqueId, v3.State, v3.Status, v3.HealthMask, v3.HealthSummary)
		}
		v2, ret := g.GetGpuFabricInfoV().V2()
		if ret != nvml.ERROR_ARGUMENT_VERSION_MISMATCH {
			if err := failure(ret); err != nil {
				return topology.Fabric{}, err
			}
			return fabricOf(v2.ClusterUuid, v2.CliqueId, v2.State, v2.Status, v2.HealthMask, 0)
		}
	}
	if !g.has("nvmlDeviceGetGpuFabricInfo") {
		return topology.Fabric{}, errUnsupported
	}
	info, ret := g.GetGpuFabricInfo()
	if err := failure(ret); err != nil {
		return topology.Fabric{}, err
	}
	return fabricOf(info.ClusterUuid, info.CliqueId, info.State, info.Status, 0, 0)
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
	if !g.has("nvmlDeviceGetPlatformInfo") {
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
