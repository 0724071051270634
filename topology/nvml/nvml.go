//go:build cgo

// Package nvml reads a machine's GPUs through NVIDIA's management library into
// a topology.Node, and what goes with them from /proc and /sys: the device files
// of MIG instances and the processor packages. It is the only importer of
// go-nvml.
//
// A call into the library can hang for ever on a sick GPU, and a call to a
// symbol that the library lacks ends the process: run it in a process of its
// own. No call is made after a failed initialisation, and none to a symbol that
// was not looked for before.
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
	// last is the last reading of a layout that held still.
	last *topology.Node
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

// WatchXids has Read report Xid events that come from now on. It returns when
// NVML has no events, or a second after the end of ctx.
func (l *Library) WatchXids(ctx context.Context) {
	l.watching.Store(true)
	l.xids.watch(ctx)
}

// Close shuts NVML down, unless a wait for events may be under way: that must not
// meet a shutdown, and ends with the process.
func (l *Library) Close() error {
	if l.watching.Load() || !l.system.has["nvmlShutdown"] {
		return nil
	}
	if ret := l.system.api.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut NVML down: %s", code(ret))
	}
	return nil
}

// Read reads the machine. What cannot be read is absent, with a problem. An error
// means that NVML has to be opened anew, in another process.
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
}
