//go:build cgo

package nvml

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// xids are the Xid events of GPUs that came while the process ran. All calls
// about events are made in one goroutine, [xids.watch]: one that hangs there
// keeps no reading from going on.
type xids struct {
	api    nvml.Interface
	wake   chan struct{} // of one place: there are new GPUs
	mu     sync.Mutex
	known  map[string]bool
	fresh  map[string]nvml.Device // not registered yet, by UUID
	codes  map[string][]int
	failed error
	// refused says why the events of a GPU are not watched, by UUID.
	refused map[string]error
}

func newXids(api nvml.Interface) *xids {
	return &xids{api: api, wake: make(chan struct{}, 1), known: map[string]bool{}, fresh: map[string]nvml.Device{}, codes: map[string][]int{}, refused: map[string]error{}}
}

// add has the events of a GPU watched.
func (x *xids) add(uuid string, d nvml.Device) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known[uuid] {
		return
	}
	x.known[uuid], x.fresh[uuid] = true, d
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// report adds what has come to a report.
func (x *xids) report(n *topology.Node) {
	x.mu.Lock()
	defer x.mu.Unlock()
	note(n, "Xid events", x.failed)
	for _, uuid := range slices.Sorted(maps.Keys(x.refused)) {
		note(n, "Xid events of GPU "+uuid, x.refused[uuid])
	}
	for _, uuid := range slices.Sorted(maps.Keys(x.codes)) {
		n.AddXids(uuid, x.codes[uuid]...)
	}
}

// waitMillis is how long one call waits for an event; GPUs that are new, and the
// end of ctx, wait as long.
const waitMillis = 5000

// watch waits for events until ctx ends. It returns when there can be none.
func (x *xids) watch(ctx context.Context) {
	set, ret := x.api.EventSetCreate()
	if err := failure(ret); err != nil {
		x.fail(err)
		return
	}
	defer func() { _ = set.Free() }() // the process ends
	uuids := map[nvml.Device]string{}
	for ctx.Err() == nil {
		x.register(set, uuids)
		if len(uuids) == 0 { // a wait for nothing is an error
			select {
			case <-ctx.Done():
			case <-x.wake:
			case <-time.After(waitMillis * time.Millisecond):
			}
			continue
		}
		event, ret := set.Wait(waitMillis)
		switch ret {
		case nvml.SUCCESS:
			x.take(uuids[event.Device], event)
		case nvml.ERROR_TIMEOUT:
			x.fail(nil)
		default:
			err := failure(ret)
			x.fail(err)
			if err == errUnsupported { //nolint:errorlint // never wrapped
				return
			}
			select { // the next may fail as fast
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// register has the set deliver the events of the GPUs that are new. One that
// cannot is tried again, unless it has none.
func (x *xids) register(set nvml.EventSet, uuids map[nvml.Device]string) {
	x.mu.Lock()
	fresh := maps.Clone(x.fresh)
	x.mu.Unlock()
	for uuid, d := range fresh {
		err := registerOne(d, set)
		if err == nil {
			uuids[d] = uuid
		}
		x.registered(uuid, err)
	}
}

func (x *xids) registered(uuid string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.refused, uuid)
	if err == nil || err == errUnsupported { //nolint:errorlint // never wrapped
		delete(x.fresh, uuid)
		return
	}
	x.refused[uuid] = err
}

func registerOne(d nvml.Device, set nvml.EventSet) error {
	types, ret := d.GetSupportedEventTypes()
	if err := failure(ret); err != nil {
		return err
	}
	if types&nvml.EventTypeXidCriticalError == 0 {
		return errUnsupported
	}
	return failure(d.RegisterEvents(nvml.EventTypeXidCriticalError, set))
}

// take notes an event; uuid is empty when the GPU is none of those registered.
func (x *xids) take(uuid string, event nvml.EventData) {
	if uuid == "" || event.EventType != nvml.EventTypeXidCriticalError || event.EventData == 0 || event.EventData > maxXid {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failed = nil
	if code := int(event.EventData); !slices.Contains(x.codes[uuid], code) { //nolint:gosec // bounded above
		x.codes[uuid] = append(x.codes[uuid], code)
	}
}

// maxXid bounds the codes; NVML says 999 for one that it does not know.
const maxXid = 1 << 16

func (x *xids) fail(err error) {
	x.mu.Lock()
	x.failed = err
	x.mu.Unlock()
}
