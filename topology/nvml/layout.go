//go:build cgo

package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// layout is the part of a report that must come from one moment: the GPUs and the
// MIG instances. It takes several calls, so it may change meanwhile. It is read
// before the other facts and again after them.
type layout []gpuLayout

// gpuLayout is the GPU at one index of NVML. The fields are in the order of the
// calls. No call was made after one that failed.
type gpuLayout struct {
	handle           string // the error of opening it
	uuid             string
	uuidRet          nvml.Return
	mode, most       int // MIG mode, and the most MIG devices
	modeRet, mostRet nvml.Return
	slots            []slotLayout
}

// slotLayout is one place of a MIG device.
type slotLayout struct {
	handleRet             nvml.Return
	uuid                  string
	gi, ci                int
	uuidRet, giRet, ciRet nvml.Return
}

// layoutOf reads the layout alone.
func layoutOf(m machine) (layout, error) {
	count, err := m.count()
	if err != nil {
		return nil, err
	}
	l := make(layout, count)
	for i := range l {
		if _, _, err := find(m, i, &l[i]); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// find reads the layout at an index. It returns the GPU and the devices in its MIG
// slots. It fails only if NVML as a whole fails.
func find(m machine, i int, g *gpuLayout) (device, []nvml.Device, error) {
	d, err := m.device(i)
	if errors.Is(err, errGone) {
		return nil, nil, err
	}
	if err != nil {
		g.handle = err.Error()
		return nil, nil, nil //nolint:nilerr // it is a fact of the layout
	}
	if !g.read(d) {
		return d, nil, nil
	}
	devices := make([]nvml.Device, g.most)
	g.slots = make([]slotLayout, g.most)
	for i := range devices {
		devices[i] = findInstance(d, i, &g.slots[i])
	}
	return d, devices, nil
}

// read reads UUID and MIG mode, and reports whether the GPU has MIG slots.
func (g *gpuLayout) read(d device) bool {
	if g.uuid, g.uuidRet = d.GetUUID(); g.uuidRet != nvml.SUCCESS {
		return false
	}
	if g.mode, _, g.modeRet = d.GetMigMode(); g.modeRet != nvml.SUCCESS || g.mode != nvml.DEVICE_MIG_ENABLE {
		return false
	}
	g.most, g.mostRet = d.GetMaxMigDeviceCount()
	return g.mostRet == nvml.SUCCESS
}

func findInstance(d device, i int, s *slotLayout) nvml.Device {
	m, ret := d.GetMigDeviceHandleByIndex(i)
	if s.handleRet = ret; ret != nvml.SUCCESS {
		return nil
	}
	if s.uuid, s.uuidRet = m.GetUUID(); s.uuidRet != nvml.SUCCESS {
		return m
	}
	if s.gi, s.giRet = m.GetGpuInstanceId(); s.giRet != nvml.SUCCESS {
		return m
	}
	s.ci, s.ciRet = m.GetComputeInstanceId()
	return m
}

// unreadable says why the GPU cannot be read, empty if it can.
func (g *gpuLayout) unreadable(i int) string {
	if err := failure(g.uuidRet); err != nil && g.handle == "" {
		return fmt.Sprintf("GPU %d: read UUID: %v", i, err)
	}
	return g.handle
}

// mig reads the MIG devices that were found. Slots may be empty.
func (r *reader) mig(found *gpuLayout, slots []nvml.Device) {
	if !r.fact("MIG mode", failure(found.modeRet)) || !r.fact("MIG devices", failure(found.mostRet)) {
		return
	}
	for i := range found.slots {
		s := &found.slots[i]
		if s.handleRet == nvml.ERROR_NOT_FOUND || s.handleRet == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if r.fact(fmt.Sprintf("MIG device %d", i), failure(s.handleRet)) && r.fact("MIG UUID", failure(s.uuidRet)) &&
			r.fact("MIG GPU instance id", failure(s.giRet)) && r.fact("MIG compute instance id", failure(s.ciRet)) {
			r.instance(s, slots[i])
		}
	}
	r.gpu.MIGEmpty = found.mode == nvml.DEVICE_MIG_ENABLE && found.modeRet == nvml.SUCCESS && !slices.ContainsFunc(found.slots, func(s slotLayout) bool {
		return s.handleRet != nvml.ERROR_NOT_FOUND && s.handleRet != nvml.ERROR_INVALID_ARGUMENT
	})
	slices.SortFunc(r.gpu.MIG, func(a, b topology.MIGInstance) int {
		return cmp.Or(cmp.Compare(a.GPUInstanceID, b.GPUInstanceID), cmp.Compare(a.ComputeInstanceID, b.ComputeInstanceID))
	})
	r.capabilities()
}

func (r *reader) instance(s *slotLayout, d nvml.Device) {
	m := topology.MIGInstance{UUID: s.uuid, GPUInstanceID: s.gi, ComputeInstanceID: s.ci}
	if name, ret := d.GetName(); r.fact("MIG name", failure(ret)) { // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
		_, m.Profile, _ = strings.Cut(name, " MIG ")
	}
	r.gpu.MIG = append(r.gpu.MIG, m)
}

// instances returns the MIG instances in the slots.
func (g *gpuLayout) instances(slots []nvml.Device) []instance {
	var out []instance
	for i, s := range g.slots {
		if slots[i] != nil && s.uuidRet == nvml.SUCCESS && s.giRet == nvml.SUCCESS {
			out = append(out, instance{slots[i], s.uuid, s.gi})
		}
	}
	return out
}

// capabilities reads the device files of the instances, which are named by the
// GPU's minor number.
func (r *reader) capabilities() {
	if r.gpu.Minor == nil {
		return
	}
	var failed error
	for i := range r.gpu.MIG {
		m := &r.gpu.MIG[i]
		var err error
		if m.Capabilities, err = capabilitiesOf(r.root, *r.gpu.Minor, m.GPUInstanceID, m.ComputeInstanceID); failed == nil {
			failed = err
		}
	}
	r.fact("capability files of MIG instances", failed) // one problem for all of them
}

// settleTries is how often a changing layout is read. All these readings take less
// time than a tool needs to make one MIG instance.
const settleTries = 5

// errUnsettled: the layout changed in every reading.
var errUnsettled = errors.New("GPUs or MIG instances came or went while they were read")

// readSettled reads the machine until the layouts before and after are equal. If
// they never are, it returns the last good facts with a problem.
func (l *Library) readSettled() (*topology.Node, error) {
	for range settleTries {
		r, err := read(l.system, l.root)
		if err != nil {
			return nil, err
		}
		after, err := layoutOf(l.system)
		if err != nil {
			return nil, err
		}
		if !reflect.DeepEqual(r.layout, after) {
			continue
		}
		present := make(map[string]nvml.Device, len(r.devices))
		for i, d := range r.devices {
			if g, ok := d.(gpu); ok {
				present[r.node.GPUs[i].UUID] = g.Device
			}
		}
		l.xids.seen(present)
		l.sampler.seen(r)
		l.last = r.node
		return cloneNode(r.node), nil
	}
	if l.last == nil {
		return nil, fmt.Errorf("read the machine: %w", errUnsettled)
	}
	n := cloneNode(l.last)
	n.Problems = append(n.Problems, topology.Problem{Reason: topology.ReasonUnsettled, Message: "layout: " + errUnsettled.Error() + "; shown as before"})
	return n, nil
}

// cloneNode copies the node, and the lists that Read adds to.
func cloneNode(n *topology.Node) *topology.Node {
	c := *n
	c.GPUs, c.Problems = slices.Clone(n.GPUs), slices.Clone(n.Problems)
	return &c
}
