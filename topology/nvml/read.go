//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// reading is a machine's report, and the devices in it by UUID.
type reading struct {
	node *topology.Node
	gpus map[string]nvml.Device
	// places are GPUs and MIG instances.
	places map[string]place
}

// errGone: NVML itself no longer works. It was shut down, or the driver was
// unloaded or exchanged.
var errGone = errors.New("NVML has to be initialised again")

// read asks NVML for all facts of a report.
func (l *Library) read() (*reading, error) {
	count, ret := l.api.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count GPUs: %s", code(ret))
	}
	n := &topology.Node{}
	if v, ret := l.api.SystemGetDriverVersion(); note(n, "driver version", failure(ret)) {
		n.DriverVersion = v
	}
	if v, ret := l.api.SystemGetNVMLVersion(); note(n, "NVML version", failure(ret)) {
		n.NVMLVersion = v
	}
	if v, ret := l.api.SystemGetCudaDriverVersion_v2(); note(n, "CUDA version", failure(ret)) {
		n.CUDAVersion = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	out := &reading{node: n, gpus: map[string]nvml.Device{}, places: map[string]place{}}
	for i := range count {
		d, ret := l.api.DeviceGetHandleByIndex(i)
		uuid, problem := "", fmt.Sprintf("open GPU %d", i)
		switch ret {
		case nvml.SUCCESS:
			uuid, ret = d.GetUUID()
			problem = fmt.Sprintf("GPU %d: read UUID", i)
		case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH:
			return nil, fmt.Errorf("open GPU %d: %s; %w", i, code(ret), errGone)
		}
		if ret != nvml.SUCCESS {
			n.Problems = append(n.Problems, topology.Finding{Reason: topology.ReasonGPUUnreadable, Message: problem + ": " + code(ret)})
			continue
		}
		r := reader{reading: out, gpu: topology.GPU{Index: i, UUID: uuid}, d: d, has: l.has}
		r.read(l.root)
		n.GPUs = append(n.GPUs, r.gpu)
		out.gpus[uuid], out.places[uuid] = d, place{device: d}
	}
	l.unshown(n, count)
	return out, nil
}

// note adds the reason why a fact could not be read. An unsupported fact is no
// problem. note reports whether the fact was read.
func note(n *topology.Node, fact string, err error) bool {
	if err != nil && !errors.Is(err, errUnsupported) {
		n.Problems = append(n.Problems, topology.Finding{Reason: topology.ReasonFactUnreadable, Message: fmt.Sprintf("%s: %v", fact, err)})
	}
	return err == nil
}

// reader reads one GPU.
type reader struct {
	*reading
	gpu topology.GPU
	d   nvml.Device
	has symbols
}

// fact notes why a fact of the GPU could not be read, and reports whether it was.
func (r *reader) fact(name string, err error) bool {
	return err == nil || note(r.node, name+" of GPU "+r.gpu.UUID, err)
}

// read reads the facts of the GPU. Its UUID is known.
func (r *reader) read(root string) {
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
	r.mig(root)
	if f, err := fabricOf(r.d, r.has); r.fact("fabric", err) {
		r.gpu.Fabric = f
	}
	if r.has[fieldValues] {
		r.fields()
	}
	if r.node.Platform == nil && r.has[platformInfo] {
		if p, err := platformOf(r.d); r.fact("platform", err) {
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
// fail in the same way, so the number of links is not known.
func (r *reader) links() {
	var links topology.Links
	var remoteErr error
	known := true
	for i := range nvml.NVLINK_MAX_LINKS {
		state, ret := r.d.GetNvLinkState(i)
		if ret == nvml.ERROR_INVALID_ARGUMENT {
			break
		}
		if err := failure(ret); err != nil {
			known = errors.Is(err, errUnsupported)
			r.fact(fmt.Sprintf("NVLink %d", i), err)
			break
		}
		if state != nvml.FEATURE_ENABLED {
			continue
		}
		if err := r.link(i, &links); err != nil && remoteErr == nil {
			remoteErr = err
		}
	}
	if known {
		r.gpu.Links = &links
	}
	r.fact("other end of an NVLink", remoteErr) // one problem for all links
}

// link counts an NVLink by what is at its other end.
func (r *reader) link(i int, links *topology.Links) error {
	kind, err := nvml.NVLINK_DEVICE_TYPE_UNKNOWN, error(nil)
	if r.has[remoteDeviceType] {
		var ret nvml.Return
		kind, ret = r.d.GetNvLinkRemoteDeviceType(i)
		err = failure(ret)
	}
	switch {
	case err == nil && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH:
		links.Switch++
	case err == nil && kind == nvml.NVLINK_DEVICE_TYPE_IBMNPU:
		links.IBMNPU++
	case err == nil && kind == nvml.NVLINK_DEVICE_TYPE_GPU:
		pci, ret := r.d.GetNvLinkRemotePciInfo(i)
		id := ""
		if err = failure(ret); err == nil {
			id = busID(pci)
		}
		links.AddGPU(id)
	default:
		links.Unknown++
	}
	return err
}

// busID returns the PCI address, a C string in a field of fixed size.
func busID(p nvml.PciInfo) string {
	var id strings.Builder
	for _, c := range p.BusId {
		if c == 0 {
			break
		}
		id.WriteByte(byte(c)) //nolint:gosec // ASCII
	}
	return strings.TrimSpace(id.String())
}

// numbersOf returns the numbers of a mask's bits.
func numbersOf(words []uint) []int {
	count := 0
	for _, w := range words {
		count += bits.OnesCount(w)
	}
	numbers := make([]int, 0, count)
	for i, w := range words {
		for ; w != 0; w &= w - 1 {
			numbers = append(numbers, i*bits.UintSize+bits.TrailingZeros(w))
		}
	}
	return numbers
}

// lowest returns the lowest number in a mask. Beside Grace the memory of GPUs is
// NUMA nodes too, with higher numbers than the nodes of the CPUs.
func lowest(words []uint) *int {
	numbers := numbersOf(words)
	if len(numbers) == 0 {
		return nil
	}
	return &numbers[0]
}

// cpuList writes the CPUs of a mask as Linux does: "0-35,72-107".
func cpuList(words []uint) string {
	var parts []string
	cpus := numbersOf(words)
	for len(cpus) > 0 {
		run := 1
		for run < len(cpus) && cpus[run] == cpus[0]+run {
			run++
		}
		part := fmt.Sprint(cpus[0])
		if run > 1 {
			part = fmt.Sprintf("%d-%d", cpus[0], cpus[run-1])
		}
		parts, cpus = append(parts, part), cpus[run:]
	}
	return strings.Join(parts, ",")
}
