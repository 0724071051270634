package inputs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// GPUDriver is the name under which NVIDIA's DRA driver lists GPUs.
const GPUDriver = "gpu.nvidia.com"

// The reasons of problems with ResourceSlices.
const (
	// ReasonSlicesIncomplete names a node that lacks some of its slices.
	ReasonSlicesIncomplete = "ResourceSlicesIncomplete"
	// ReasonSliceUnreadable names a node with a device that makes no sense.
	ReasonSliceUnreadable = "ResourceSliceUnreadable"
	// ReasonSlicesDiffer names a node whose labels and slices have different numbers of
	// GPUs.
	ReasonSlicesDiffer = "ResourceSlicesDiffer"
)

// Slice is the part of a ResourceSlice that is kept.
type Slice struct {
	Name, Node, Pool string
	// Generation is the pool's. Count is the number of slices of the pool.
	Generation, Count int64
	devices           []sliceDevice
}

// sliceDevice is a device of a slice. A MIG instance without a UUID does not exist yet.
type sliceDevice struct {
	name, kind, uuid, parent, product, profile, pciBusID string
	minor                                                int // below 0 where it is unknown
	memoryMiB                                            uint64
}

// SliceSpec is the part of a ResourceSlice's spec that is used, by the names that Kubernetes
// gives its members.
type SliceSpec struct {
	Driver   string    `json:"driver"`
	NodeName string    `json:"nodeName"`
	Pool     SlicePool `json:"pool"`
	Devices  []Device  `json:"devices"`
}

// SlicePool is the pool that a ResourceSlice belongs to.
type SlicePool struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	Count      int64  `json:"resourceSliceCount"`
}

// Device is a device of a ResourceSlice.
type Device struct {
	Name       string               `json:"name"`
	Attributes map[string]Attribute `json:"attributes"`
	Capacity   struct {
		Memory struct {
			Value Bytes `json:"value"`
		} `json:"memory"`
	} `json:"capacity"`
}

// Attribute is an attribute of a device. What the attribute is not is nil. Values of further
// kinds are not used.
type Attribute struct {
	String *string `json:"string"`
	Int    *int64  `json:"int"`
}

// Bytes is a number of bytes, 0 or more. In JSON it is a quantity of Kubernetes, such as "189471Mi".
type Bytes int64

var quantity = regexp.MustCompile(`^([0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)$`)

// units are what the letters after a quantity stand for.
var units = map[string]float64{"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}

// UnmarshalJSON reads a quantity.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	m := quantity.FindStringSubmatch(text)
	if m == nil || units[m[2]] == 0 {
		return fmt.Errorf("quantity %q: want a number and a unit, such as 80Gi", text)
	}
	number, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return fmt.Errorf("quantity %q: %w", text, err)
	}
	*b = Bytes(min(math.Ceil(number*units[m[2]]), 1<<62))
	return nil
}

// ReadSlice reads the spec of the ResourceSlice of a name, or returns nil if it is not one of
// NVIDIA's driver.
func ReadSlice(name string, spec []byte) (*Slice, error) {
	var s SliceSpec
	if err := json.Unmarshal(spec, &s); err != nil {
		return nil, fmt.Errorf("ResourceSlice %s: %w", name, err)
	}
	if s.Driver != GPUDriver {
		return nil, nil
	}
	slice := SliceOf(name, &s)
	return &slice, nil
}

// SliceOf returns the part of a ResourceSlice that is kept.
func SliceOf(name string, s *SliceSpec) Slice {
	out := Slice{Name: name, Node: s.NodeName, Pool: s.Pool.Name, Generation: s.Pool.Generation, Count: s.Pool.Count}
	for i := range s.Devices {
		out.devices = append(out.devices, readDevice(&s.Devices[i]))
	}
	return out
}

// minorName matches the names of devices that newer releases of the driver call by the
// minor number. Those releases publish no attribute minor.
var minorName = regexp.MustCompile(`^gpu-([0-9]{1,4})(?:-mig-.*)?$`)

// readDevice reads the attributes that NVIDIA's driver gives a device. Releases that
// called devices by NVML's index published the attributes index and minor.
func readDevice(d *Device) sliceDevice {
	text := func(key string) string {
		if a := d.Attributes[key]; a.String != nil {
			return *a.String
		}
		return ""
	}
	out := sliceDevice{name: d.Name, kind: text("type"), uuid: text("uuid"), parent: text("parentUUID"), product: text("productName"), profile: text("profile"),
		pciBusID: text("resource.kubernetes.io/pciBusID"), minor: -1}
	minor, hasMinor := d.Attributes["minor"]
	_, hasIndex := d.Attributes["index"]
	if hasMinor && minor.Int != nil && *minor.Int >= 0 && *minor.Int <= 9999 {
		out.minor = int(*minor.Int)
	} else if m := minorName.FindStringSubmatch(d.Name); m != nil && !hasMinor && !hasIndex {
		out.minor, _ = strconv.Atoi(m[1]) // digits only
	}
	if memory := d.Capacity.Memory.Value; memory > 0 {
		out.memoryMiB = uint64(memory) >> 20
	}
	return out
}

// Same reports whether two versions of a slice say the same.
func (s *Slice) Same(next *Slice) bool {
	return s.Node == next.Node && s.Pool == next.Pool && s.Generation == next.Generation && s.Count == next.Count && slices.Equal(s.devices, next.devices)
}

// ReadSlices returns the GPUs of each node by its slices. A node with a missing slice has
// no GPUs, because its driver is still writing the slices.
func ReadSlices(all []*Slice) map[string]*topology.Node {
	byNode := map[string][]*Slice{}
	for _, s := range all {
		if s.Node != "" {
			byNode[s.Node] = append(byNode[s.Node], s)
		}
	}
	out := make(map[string]*topology.Node, len(byNode))
	for node, its := range byNode {
		out[node] = nodeOfSlices(node, its)
	}
	return out
}

func nodeOfSlices(node string, its []*Slice) *topology.Node {
	n := &topology.Node{Name: node}
	slices.SortFunc(its, func(a, b *Slice) int { return cmp.Compare(a.Name, b.Name) })
	newest, found := map[string]int64{}, map[string]int64{}
	for _, s := range its {
		newest[s.Pool] = max(newest[s.Pool], s.Generation)
	}
	var devices []sliceDevice
	its = slices.DeleteFunc(its, func(s *Slice) bool { return s.Generation < newest[s.Pool] })
	for _, s := range its {
		found[s.Pool]++
		devices = append(devices, s.devices...)
	}
	for _, s := range its {
		if found[s.Pool] != s.Count {
			n.Problems = []topology.Finding{{Subject: topology.Subject{Node: node}, Reason: ReasonSlicesIncomplete, Message: fmt.Sprintf("pool %s has %d of %d ResourceSlices", s.Pool, found[s.Pool], s.Count)}}
			return n
		}
	}
	for i := range devices {
		if problem := addSliceDevice(n, &devices[i]); problem != "" {
			n.Problems = append(n.Problems, topology.Finding{Subject: topology.Subject{Node: node}, Reason: ReasonSliceUnreadable, Message: problem})
		}
	}
	slices.SortStableFunc(n.GPUs, func(a, b topology.GPU) int { return cmp.Compare(a.UUID, b.UUID) })
	checkMinors(n)
	return n
}

// addSliceDevice adds a GPU or a MIG instance to n, or says what is wrong with the device.
// A GPU that is lent to a virtual machine (vfio) is not Slurm's.
func addSliceDevice(n *topology.Node, d *sliceDevice) (problem string) {
	switch d.kind {
	case "gpu":
		if d.uuid == "" {
			return "device " + d.name + " has no uuid"
		}
		g := gpuOf(n, d.uuid)
		g.Product, g.MemoryMiB, g.PCIBusID, g.Minor = d.product, d.memoryMiB, longPCIBusID(d.pciBusID), minorOf(d)
	case "mig":
		if d.uuid == "" {
			return ""
		}
		if d.parent == "" || d.profile == "" {
			return "device " + d.name + " has no parentUUID or no profile"
		}
		g := gpuOf(n, d.parent)
		g.Product = cmp.Or(g.Product, d.product)
		if g.Minor == nil {
			g.Minor = minorOf(d)
		}
		g.MIG = append(g.MIG, topology.MIGInstance{UUID: d.uuid, Profile: d.profile})
	case "vfio":
	default:
		return fmt.Sprintf("device %s has type %q: want gpu, mig or vfio", d.name, d.kind)
	}
	return ""
}

// gpuOf returns the GPU of that UUID. It adds the GPU if there is none.
func gpuOf(n *topology.Node, uuid string) *topology.GPU {
	for i := range n.GPUs {
		if n.GPUs[i].UUID == uuid {
			return &n.GPUs[i]
		}
	}
	n.GPUs = append(n.GPUs, topology.GPU{UUID: uuid})
	return &n.GPUs[len(n.GPUs)-1]
}

func minorOf(d *sliceDevice) *int {
	if d.minor < 0 {
		return nil
	}
	minor := d.minor
	return &minor
}

// checkMinors drops all minor numbers if two GPUs have the same one: then the names of
// devices do not hold minor numbers.
func checkMinors(n *topology.Node) {
	seen := map[int]string{}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Minor == nil {
			continue
		}
		if other, ok := seen[*g.Minor]; ok {
			n.Problems = append(n.Problems, topology.Finding{Subject: topology.Subject{Node: n.Name}, Reason: ReasonSliceUnreadable, Message: fmt.Sprintf("GPUs %s and %s both have minor number %d", other, g.UUID, *g.Minor)})
			for k := range n.GPUs {
				n.GPUs[k].Minor = nil
			}
			return
		}
		seen[*g.Minor] = g.UUID
	}
}

// longPCIBusID writes 0000:07:00.0 as NVML does, 00000000:07:00.0.
func longPCIBusID(id string) string {
	if domain, _, ok := strings.Cut(id, ":"); ok && len(domain) == 4 {
		return "0000" + id
	}
	return id
}

// addSlices adds the GPUs of the node's ResourceSlices if there is no report, and the
// problems of the slices.
func (in *Inputs) addSlices(f *topology.Facts, snap *Snapshot) {
	n := snap.Slices[f.Name]
	if n == nil || f.Report != nil {
		return
	}
	f.Slices = n
	in.Problems = append(in.Problems, n.Problems...)
	if labelled := f.Labels.GPUs; labelled > 0 && len(n.GPUs) > 0 && labelled != len(n.GPUs) && !slices.ContainsFunc(n.GPUs, func(g topology.GPU) bool { return len(g.MIG) > 0 }) {
		in.Problems = append(in.Problems, topology.Finding{Subject: topology.Subject{Node: f.Name}, Reason: ReasonSlicesDiffer,
			Message: fmt.Sprintf("its ResourceSlices list %d GPUs, its labels count %d; the slices count", len(n.GPUs), labelled)})
	}
}
