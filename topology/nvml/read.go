//go:build cgo

package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// read asks the machine for all that NVML has of a report, and returns the
// devices of its GPUs too. root is where the machine's proc is.
func read(m machine, root string) (*topology.Node, []device, error) {
	count, err := m.count()
	if err != nil {
		return nil, nil, err
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
	var devices []device
	for i := range count {
		d, err := m.device(i)
		if err != nil {
			n.Problems = append(n.Problems, topology.Problem{Reason: "GPUUnreadable", Message: err.Error()})
			continue
		}
		r := reader{node: n, gpu: topology.GPU{Index: i}, d: d, root: root}
		if err := r.read(); err != nil {
			n.Problems = append(n.Problems, topology.Problem{Reason: "GPUUnreadable", Message: fmt.Sprintf("GPU %d: %v", i, err)})
			continue
		}
		n.GPUs, devices = append(n.GPUs, r.gpu), append(devices, d)
	}
	readPeers(n, devices)
	return n, devices, nil
}

// note adds the reason why a fact could not be read; what is not supported is
// absent without a word. It reports whether the fact was read.
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

// read fails only when the GPU has no identity.
func (r *reader) read() error {
	uuid, ret := r.d.GetUUID()
	if err := failure(ret); err != nil {
		return fmt.Errorf("read UUID: %w", err)
	}
	r.gpu.UUID = uuid
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
	r.mig()
	if f, err := r.d.fabric(); r.fact("fabric", err) {
		r.gpu.Fabric = f
	}
	if r.node.Platform == nil {
		if p, err := r.d.platform(); r.fact("platform", err) {
			r.node.Platform = p
		}
	}
	return nil
}

// maxCPUs and maxNUMANodes bound the numbers that are asked for. go-nvml takes
// them for bytes of the mask and allocates eight times the words; the rest stays
// zero.
const (
	maxCPUs      = 4096
	maxNUMANodes = 128
)

// links reads the active NVLinks. A GPU that has fewer than NVML's most answers
// that the next is an invalid argument; after another error the rest would fail
// like it.
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
	if !r.d.has("nvmlDeviceGetNvLinkRemoteDeviceType") {
		return link, nil
	}
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

// mig reads the MIG devices, of which there may be fewer than the GPU can have.
func (r *reader) mig() {
	mode, _, ret := r.d.GetMigMode()
	if !r.fact("MIG mode", failure(ret)) || mode != nvml.DEVICE_MIG_ENABLE {
		return
	}
	most, ret := r.d.GetMaxMigDeviceCount()
	if !r.fact("MIG devices", failure(ret)) {
		return
	}
	for i := range most {
		d, ret := r.d.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if !r.fact(fmt.Sprintf("MIG device %d", i), failure(ret)) {
			continue
		}
		r.instance(d)
	}
	slices.SortFunc(r.gpu.MIG, func(a, b topology.MIGInstance) int {
		return cmp.Or(cmp.Compare(a.GPUInstanceID, b.GPUInstanceID), cmp.Compare(a.ComputeInstanceID, b.ComputeInstanceID))
	})
	r.capabilities()
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

func (r *reader) instance(d nvml.Device) {
	var m topology.MIGInstance
	var ret nvml.Return
	if m.UUID, ret = d.GetUUID(); !r.fact("MIG UUID", failure(ret)) {
		return
	}
	if m.GPUInstanceID, ret = d.GetGpuInstanceId(); !r.fact("MIG GPU instance id", failure(ret)) {
		return
	}
	if m.ComputeInstanceID, ret = d.GetComputeInstanceId(); !r.fact("MIG compute instance id", failure(ret)) {
		return
	}
	if name, ret := d.GetName(); r.fact("MIG name", failure(ret)) { // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
		_, m.Profile, _ = strings.Cut(name, " MIG ")
	}
	r.gpu.MIG = append(r.gpu.MIG, m)
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

// lowest returns the lowest number in a mask. Where the memory of GPUs is NUMA
// nodes too, as beside Grace, those come after the nodes of the CPUs.
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
