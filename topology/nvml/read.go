//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// reading is a machine's report with the layout that it describes. devices and
// instances are beside the report's GPUs.
type reading struct {
	node      *topology.Node
	layout    layout
	devices   []device
	instances [][]instance
}

// instance is a MIG instance that was found.
type instance struct {
	device nvml.Device
	uuid   string
	gi     int
}

// read asks NVML for all facts of a report. root is the directory with the
// machine's proc.
func read(m machine, root string) (*reading, error) {
	count, err := m.count()
	if err != nil {
		return nil, err
	}
	n := &topology.Node{}
	if v, ret := m.driverVersion(); note(n, "driver version", failure(ret)) {
		n.DriverVersion = v
	}
	if v, ret := m.libraryVersion(); note(n, "NVML version", failure(ret)) {
		n.NVMLVersion = v
	}
	if v, ret := m.cudaVersion(); note(n, "CUDA version", failure(ret)) {
		n.CUDAVersion = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	out := &reading{node: n, layout: make(layout, count)}
	for i := range count {
		found := &out.layout[i]
		d, slots, err := find(m, i, found)
		if err != nil {
			return nil, err
		}
		if problem := found.unreadable(i); problem != "" {
			n.Problems = append(n.Problems, topology.Problem{Reason: "GPUUnreadable", Message: problem})
			continue
		}
		r := reader{node: n, gpu: topology.GPU{Index: i, UUID: found.uuid}, d: d, root: root}
		r.read(found, slots)
		n.GPUs = append(n.GPUs, r.gpu)
		out.devices, out.instances = append(out.devices, d), append(out.instances, found.instances(slots))
	}
	readPeers(n, out.devices)
	return out, nil
}

// note adds the reason why a fact could not be read. An unsupported fact is no
// problem. note reports whether the fact was read.
func note(n *topology.Node, fact string, err error) bool {
	if err != nil && !errors.Is(err, errUnsupported) {
		n.Problems = append(n.Problems, topology.Problem{Reason: "FactUnreadable", Message: fmt.Sprintf("%s: %v", fact, err)})
	}
	return err == nil
}

// reader reads one GPU.
type reader struct {
	node *topology.Node
	gpu  topology.GPU
	d    device
	root string
}

func (r *reader) fact(name string, err error) bool {
	return note(r.node, name+" of GPU "+r.gpu.UUID, err)
}

// read reads the facts of the GPU. Its UUID is known.
func (r *reader) read(found *gpuLayout, slots []nvml.Device) {
	if minor, ret := r.d.GetMinorNumber(); r.fact("minor number", failure(ret)) {
		r.gpu.Minor = &minor
	}
	if pci, ret := r.d.GetPciInfo(); r.fact("PCI address", failure(ret)) {
		r.gpu.PCIBusID = busID(pci)
	}
	if name, ret := r.d.GetName(); r.fact("product name", failure(ret)) {
		r.gpu.Product = name
	}
	if memory, ret := r.d.GetMemoryInfo(); r.fact("memory", failure(ret)) {
		r.gpu.MemoryMiB = memory.Total >> 20
	}
	if words, ret := r.d.GetMemoryAffinity(maxNUMANodes, nvml.AFFINITY_SCOPE_NODE); r.fact("NUMA node", failure(ret)) {
		r.gpu.NUMANode = lowest(words)
	}
	if words, ret := r.d.GetCpuAffinity(maxCPUs); r.fact("CPU affinity", failure(ret)) {
		r.gpu.CPUAffinity = cpuList(words)
	}
	r.links()
	r.mig(found, slots)
	if f, err := r.d.fabric(); r.fact("fabric", err) {
		r.gpu.Fabric = f
	}
	if r.node.Platform == nil {
		if p, err := r.d.platform(); r.fact("platform", err) {
			r.node.Platform = p
		}
	}
}

// maxCPUs and maxNUMANodes are an eighth of Linux's limits. NVML takes the bits of
// a mask, but go-nvml divides by the bytes of a word.
const (
	maxCPUs      = 8192 / 8
	maxNUMANodes = 1024 / 8
)

// links reads the active NVLinks. A GPU with fewer links than NVML's maximum
// answers INVALID_ARGUMENT for the next one. After any other error the rest would
// fail in the same way.
func (r *reader) links() {
	var remoteErr error
	for i := range nvml.NVLINK_MAX_LINKS {
		state, ret := r.d.GetNvLinkState(i)
		if ret == nvml.ERROR_INVALID_ARGUMENT || !r.fact(fmt.Sprintf("NVLink %d", i), failure(ret)) {
			break
		}
		if state != nvml.FEATURE_ENABLED {
			continue
		}
		link, err := r.link(i)
		if err != nil && remoteErr == nil {
			remoteErr = err
		}
		r.gpu.NVLinks = append(r.gpu.NVLinks, link)
	}
	r.fact("other end of an NVLink", remoteErr) // one problem for all links
}

// link reads what is at the other end of an NVLink; an error leaves the link.
func (r *reader) link(i int) (topology.NVLink, error) {
	link := topology.NVLink{Link: i, Remote: remoteOf(nvml.NVLINK_DEVICE_TYPE_UNKNOWN)}
	kind, ret := r.d.GetNvLinkRemoteDeviceType(i)
	if err := failure(ret); err != nil {
		return link, err
	}
	link.Remote = remoteOf(kind)
	if link.Remote != "gpu" {
		return link, nil
	}
	pci, ret := r.d.GetNvLinkRemotePciInfo(i)
	if err := failure(ret); err != nil {
		return link, err
	}
	link.RemotePCIBusID = busID(pci)
	return link, nil
}

func remoteOf(kind nvml.IntNvLinkDeviceType) string {
	switch kind {
	case nvml.NVLINK_DEVICE_TYPE_GPU:
		return "gpu"
	case nvml.NVLINK_DEVICE_TYPE_SWITCH:
		return "switch"
	case nvml.NVLINK_DEVICE_TYPE_IBMNPU:
		return "ibmnpu"
	}
	return "unknown"
}

func busID(p nvml.PciInfo) string {
	raw := make([]byte, 0, len(p.BusId))
	for _, c := range p.BusId {
		raw = append(raw, byte(c)) //nolint:gosec // ASCII
	}
	return text(raw)
}

// text is a C string in a field of fixed size.
func text(raw []byte) string {
	if i := slices.Index(raw, 0); i >= 0 {
		raw = raw[:i]
	}
	return strings.TrimSpace(string(raw))
}

// lowest returns the lowest number in a mask. Beside Grace the memory of GPUs is
// NUMA nodes too, with higher numbers than the nodes of the CPUs.
func lowest(words []uint) *int {
	for i, w := range words {
		if w != 0 {
			n := i*bits.UintSize + bits.TrailingZeros(w)
			return &n
		}
	}
	return nil
}

// cpuList writes the CPUs of a mask as Linux does: "0-35,72-107".
func cpuList(words []uint) string {
	var cpus []int
	for cpu := range len(words) * bits.UintSize {
		if words[cpu/bits.UintSize]>>(cpu%bits.UintSize)&1 == 1 {
			cpus = append(cpus, cpu)
		}
	}
	return formatCPUs(cpus)
}
