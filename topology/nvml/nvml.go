//go:build cgo

// Package nvml reads a machine's GPUs into a topology.Node through NVIDIA's
// management library. From /proc and /sys it reads the device files of MIG
// instances and the processor packages. It is the only importer of go-nvml.
//
// A call into the library can hang on a sick GPU and never return. A call to a
// symbol that the library lacks ends the process. So run it in a process of its
// own. The package makes no call after a failed initialisation, and none to a
// symbol that it has not looked up.
package nvml

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// Library is a loaded NVML.
type Library struct {
	system   system
	root     string
	sockets  socketReader
	xids     *xids
	sampler  *sampler
	watching atomic.Bool
	// last is the last reading whose layout did not change.
	last *topology.Node
}

// Options name the library to open, and the place of the machine's files.
type Options struct {
	// Path is the library's path. Empty: the loader finds libnvidia-ml.so.1.
	Path string
	// Root is the directory with the machine's proc and sys. Empty: /.
	Root string
}

// Open loads and initialises NVML.
func Open(o Options) (*Library, error) {
	has, err := loadSymbols(o.Path)
	if err != nil {
		return nil, err
	}
	var options []nvml.LibraryOption
	if o.Path != "" {
		options = append(options, nvml.WithLibraryPath(o.Path))
	}
	if o.Root == "" {
		o.Root = "/"
	}
	api := nvml.New(options...)
	if ret := api.Init(); ret != nvml.SUCCESS {
		return nil, notInitialised(ret)
	}
	return &Library{system: system{api, has}, root: o.Root, sockets: socketReader{root: o.Root}, xids: newXids(api, has),
		sampler: newSampler(api, has, seesPIDs(o.Root))}, nil
}

// WatchXids makes Read report the Xid events that come from now on. It returns when
// NVML has no events, or a second after the end of ctx.
func (l *Library) WatchXids(ctx context.Context) {
	l.watching.Store(true)
	l.xids.watch(ctx)
}

// Close shuts NVML down, unless a wait for events may be under way: a shutdown
// during such a wait is not safe, and the wait ends with the process.
func (l *Library) Close() error {
	if l.watching.Load() || !l.system.has["nvmlShutdown"] {
		return nil
	}
	if ret := l.system.api.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut NVML down: %s", code(ret))
	}
	return nil
}

// Read reads the machine. What cannot be read is absent, with a problem. After an
// error NVML has to be opened again, in another process.
func (l *Library) Read() (*topology.Node, error) {
	n, err := l.readSettled()
	if err != nil {
		return nil, err
	}
	for _, name := range l.system.has.missing() {
		note(n, "NVML", fmt.Errorf("the library lacks %s, which drivers have since %d", name, oldest))
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

// device is one GPU or MIG device. The exported methods are NVML's own.
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
}
