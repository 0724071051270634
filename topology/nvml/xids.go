//go:build cgo

package nvml

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// xids collects the Xid events of GPUs while the process runs. All calls about
// events are made in one goroutine, [xids.watch]: a call that hangs there stops no
// reading.
//
// An event set delivers nothing more once one of its GPUs is lost. So a new set takes
// its place when GPUs come or go.
type xids struct {
	api  nvml.Interface
	wake chan struct{} // of one place: other GPUs are there
	mu   sync.Mutex
	// present are the GPUs of the last reading, by UUID.
	present map[string]nvml.Device
	came    fabric.Xids
	// counts are how often each came, by UUID and number, since watched, which is zero while
	// no set of events delivers. served are the GPUs in the last set.
	counts  map[string]map[int]uint64
	watched time.Time
	served  map[string]bool
	failed  error
	// refused has the reason why a GPU's events are not watched, by UUID.
	refused map[string]error
}

func newXids(api nvml.Interface) *xids {
	return &xids{api: api, wake: make(chan struct{}, 1)}
}

// seen sets the GPUs whose events are watched.
func (x *xids) seen(present map[string]nvml.Device) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if maps.Equal(x.present, present) {
		return
	}
	x.present, x.refused = present, nil
	again.Notify(x.wake)
}

// report adds the collected events to a report.
func (x *xids) report(n *topology.Node) {
	x.mu.Lock()
	defer x.mu.Unlock()
	note(n, "Xid events", x.failed)
	for i := range n.GPUs {
		uuid := n.GPUs[i].UUID
		note(n, "Xid events of GPU "+uuid, x.refused[uuid])
	}
	x.came.Take(n)
	x.came.Show(n)
}

// waitMillis is how long one call waits for an event. A new GPU, or the end of ctx,
// is noticed after that time at the latest. retry is the pause after an error.
const (
	waitMillis = 1000
	retry      = time.Second
)

// watch waits for events until ctx ends. It returns at once if the driver has no
// events.
func (x *xids) watch(ctx context.Context) {
	var old *eventSet
	defer func() { x.free(old) }()
	for ctx.Err() == nil {
		set, err := x.newSet()
		if err == nil {
			x.free(old) // now: none is missed between the two
			old = set
			x.begin(set)
			err = x.deliver(ctx, set)
		}
		switch err {
		case nil:
			continue
		case errUnsupported: //nolint:errorlint // never wrapped
			x.fail(nil)
			return
		}
		x.fail(err)
		x.pause(ctx) // the next may fail as fast
	}
}

// begin says that a set delivers from now on. After a time without one the counts begin at
// zero.
func (x *xids) begin(set *eventSet) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.served = make(map[string]bool, len(set.uuids))
	for _, uuid := range set.uuids {
		x.served[uuid] = true
	}
	if x.watched.IsZero() {
		x.watched, x.counts = time.Now(), map[string]map[int]uint64{}
	}
}

// pause waits for the retry time, or until the GPUs change.
func (x *xids) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-x.wake:
	case <-time.After(retry):
	}
}

// eventSet is an event set of NVML.
type eventSet struct {
	nvml.EventSet
	present map[string]nvml.Device // when it was made
	uuids   map[nvml.Device]string // of the GPUs that are registered in it
	refused bool                   // a GPU could not be registered
	made    time.Time
}

// newSet makes a set with all GPUs that have Xid events.
func (x *xids) newSet() (*eventSet, error) {
	set, ret := x.api.EventSetCreate()
	if err := failure(ret); err != nil {
		return nil, err
	}
	x.mu.Lock()
	s := &eventSet{EventSet: set, present: x.present, uuids: map[nvml.Device]string{}, made: time.Now()}
	x.mu.Unlock()
	refused := map[string]error{}
	for uuid, d := range s.present {
		switch err := register(d, set); err {
		case nil:
			s.uuids[d] = uuid
		case errUnsupported: //nolint:errorlint // never wrapped
		default:
			refused[uuid], s.refused = err, true
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if maps.Equal(x.present, s.present) {
		x.refused = refused
	}
	return s, nil
}

// register adds a GPU to a set.
func register(d nvml.Device, set nvml.EventSet) error {
	types, ret := d.GetSupportedEventTypes()
	if err := failure(ret); err != nil {
		return err
	}
	if types&nvml.EventTypeXidCriticalError == 0 {
		return errUnsupported
	}
	return failure(d.RegisterEvents(nvml.EventTypeXidCriticalError, set))
}

// free takes the events that are still in the set, then frees the set. nil is none.
func (x *xids) free(s *eventSet) {
	if s == nil {
		return
	}
	for range maxPending {
		event, ret := s.Wait(0)
		if ret != nvml.SUCCESS {
			break
		}
		x.take(s.uuids[event.Device], event)
	}
	_ = s.Free() // nothing else can be done with it
}

// maxPending bounds the events that free takes.
const maxPending = 1000

// deliver takes the events of a set until ctx ends or a new set is needed. A lost
// GPU is an error only if the set never worked.
func (x *xids) deliver(ctx context.Context, set *eventSet) error {
	for works := false; ctx.Err() == nil && x.serves(set); works = true {
		if len(set.uuids) == 0 { // a wait for nothing is an error
			x.fail(nil)
			x.pause(ctx)
			continue
		}
		var wait uint32
		if works {
			wait = waitMillis
		}
		event, ret := set.Wait(wait)
		switch {
		case ret == nvml.SUCCESS:
			x.take(set.uuids[event.Device], event)
		case ret == nvml.ERROR_TIMEOUT:
			x.fail(nil)
		case ret == nvml.ERROR_GPU_IS_LOST && works:
			return nil
		default:
			return failure(ret)
		}
	}
	return nil
}

// serves reports whether a set has all GPUs that are present. A GPU that could not be
// registered is tried again after the retry time, in a new set.
func (x *xids) serves(set *eventSet) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Equal(x.present, set.present) && (!set.refused || time.Since(set.made) < retry)
}

// take records an event. uuid is empty if the GPU is not registered.
func (x *xids) take(uuid string, event nvml.EventData) {
	if uuid == "" || event.EventType != nvml.EventTypeXidCriticalError || event.EventData == 0 || event.EventData > maxXid {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failed = nil
	code := int(event.EventData) //nolint:gosec // bounded above
	x.came.Add(uuid, code)
	if x.counts == nil { // the events of a set that is given up
		return
	}
	if x.counts[uuid] == nil {
		x.counts[uuid] = map[int]uint64{}
	}
	if _, known := x.counts[uuid][code]; known || len(x.counts[uuid]) < topology.MaxXidNumbers {
		x.counts[uuid][code]++
	}
}

// count returns how many Xids of a GPU came, nil if the GPU is not watched. Those of a GPU that
// NVML no longer shows came before.
func (x *xids) count(uuid string) *topology.XidCounts {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failed != nil || x.refused[uuid] != nil || x.watched.IsZero() || !x.served[uuid] && x.counts[uuid] == nil {
		return nil
	}
	return &topology.XidCounts{Since: x.watched.UnixNano(), Came: maps.Clone(x.counts[uuid])}
}

// maxXid bounds the codes. NVML reports 999 for a code that it does not know.
const maxXid = 1 << 16

func (x *xids) fail(err error) {
	x.mu.Lock()
	if x.failed = err; err != nil {
		x.watched = time.Time{}
	}
	x.mu.Unlock()
}
