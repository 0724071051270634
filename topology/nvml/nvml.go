//go:build cgo

// Package nvml reads a machine's GPUs into a topology.Node through NVIDIA's
// management library. From /proc and /sys it reads the device files of MIG
// instances and the processor packages. It is the only importer of go-nvml.
//
// A call into the library can hang on a faulty GPU and never return. A call to a
// symbol that the library lacks ends the process. So run it in a process of its
// own. The package makes no call after a failed initialisation, and none to a
// symbol that it has not looked up.
package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// Library is a loaded NVML.
type Library struct {
	api      nvml.Interface
	has      symbols
	root     string
	sys      string
	whole    bool
	sockets  socketReader
	xids     *xids
	sampler  *sampler
	watching atomic.Bool
	// last is the last reading, and settled the last one that was equal to the
	// reading before it.
	last, settled *topology.Node
}

// Options name the library to open, and the place of the machine's files.
type Options struct {
	// Path is the library's path. Empty: the loader finds libnvidia-ml.so.1.
	Path string
	// Root is the directory with the machine's proc and sys. Empty: /.
	Root string
	// Sys is where the machine's sysfs is mounted, for the GPUs on PCI. Empty: sys of Root.
	Sys string
	// Whole says that the process is to be given all GPUs of the machine, as an agent is.
	Whole bool
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
	x := newXids(api)
	return &Library{api: api, has: has, root: o.Root, sys: cmp.Or(o.Sys, filepath.Join(o.Root, "sys")), whole: o.Whole, sockets: socketReader{root: o.Root}, xids: x,
		sampler: newSampler(api, has, x, o.Root)}, nil
}

// WatchXids makes Read report the Xid events that come from now on. It returns when
// NVML has no events, or a second after the end of ctx.
func (l *Library) WatchXids(ctx context.Context) {
	if !l.has.all(events) {
		return
	}
	l.watching.Store(true)
	l.xids.watch(ctx)
}

// Close shuts NVML down, unless a wait for events may be under way: a shutdown
// during such a wait is not safe, and the wait ends with the process.
func (l *Library) Close() error {
	if l.watching.Load() {
		return nil
	}
	if ret := l.api.Shutdown(); ret != nvml.SUCCESS {
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
	sockets, err := l.sockets.read()
	if note(n, "sockets", err) {
		n.Sockets = sockets
	}
	l.xids.report(n)
	return n, nil
}

// settleTries is how often a changing machine is read. All these readings take less
// time than a tool needs to make one MIG instance.
const settleTries = 5

// errUnsettled: no two readings in a row were equal.
var errUnsettled = errors.New("GPUs or MIG instances came or went while they were read")

// readSettled reads the machine until a reading is equal to the one before it. A
// report must be of one moment, but a reading takes many calls, and the machine may
// change between two of them. On a machine at rest one reading is enough: it is equal
// to that of the last report. If no two are equal, readSettled returns the last good
// facts with a problem.
func (l *Library) readSettled() (*topology.Node, error) {
	for range settleTries {
		r, err := l.read()
		if err != nil {
			return nil, err
		}
		equal := reflect.DeepEqual(l.last, r.node)
		l.last = r.node
		if equal {
			l.settled = r.node
			l.xids.seen(r.gpus)
			l.sampler.found = r.places
			return cloneNode(r.node), nil
		}
	}
	if l.settled == nil {
		return nil, fmt.Errorf("read the machine: %w", errUnsettled)
	}
	n := cloneNode(l.settled)
	n.Problems = append(n.Problems, topology.Finding{Reason: topology.ReasonUnsettled, Message: "layout: " + errUnsettled.Error() + "; shown as before"})
	return n, nil
}

// cloneNode copies the node, and the lists that Read adds to.
func cloneNode(n *topology.Node) *topology.Node {
	c := *n
	c.GPUs, c.Problems = slices.Clone(n.GPUs), slices.Clone(n.Problems)
	return &c
}
