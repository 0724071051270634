package publisher

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/topology"
)

// gpuDriver is the name under which NVIDIA's DRA driver lists GPUs.
const gpuDriver = "gpu.nvidia.com"

// The reasons of problems with what ResourceSlices say.
const (
	// ReasonSlicesIncomplete names a node of which some slices are missing.
	ReasonSlicesIncomplete = "ResourceSlicesIncomplete"
	// ReasonSliceUnreadable names a node with a device that cannot be understood.
	ReasonSliceUnreadable = "ResourceSliceUnreadable"
	// ReasonSlicesDiffer names a node whose labels count other GPUs than its slices
	// list.
	ReasonSlicesDiffer = "ResourceSlicesDiffer"
)

// gpuSlice is what is kept of a ResourceSlice.
type gpuSlice struct {
	metav1.ObjectMeta
	node, pool        string
	generation, count int64 // of the pool, and its slices
	devices           []sliceDevice
}

// sliceDevice is a device of a slice. A MIG instance without a UUID is one that
// could be made.
type sliceDevice struct {
	name, kind, uuid, parent, product, profile, pciBusID string
	minor                                                int // below 0 where it is unknown
	memoryMiB                                            uint64
}

// slimSlice keeps of a ResourceSlice what a Snapshot is made from.
func slimSlice(obj any) (any, error) {
	s, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return obj, nil
	}
	out := &gpuSlice{ObjectMeta: metav1.ObjectMeta{Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion},
		pool: s.Spec.Pool.Name, generation: s.Spec.Pool.Generation, count: s.Spec.Pool.ResourceSliceCount}
	if s.Spec.NodeName != nil {
		out.node = *s.Spec.NodeName
	}
	for i := range s.Spec.Devices {
		out.devices = append(out.devices, readDevice(&s.Spec.Devices[i]))
	}
	return out, nil
}

// minorName is how driver and MIG instances are called since they are called
// by the minor number; the driver has published no minor attribute since.
var minorName = regexp.MustCompile(`^gpu-([0-9]{1,4})(?:-mig-.*)?$`)

// readDevice reads the attributes that NVIDIA's driver gives a device. Releases
// that called devices by NVML's index gave the attributes index and minor.
func readDevice(d *resourcev1.Device) sliceDevice {
	text := func(key resourcev1.QualifiedName) string {
		if a := d.Attributes[key]; a.StringValue != nil {
			return *a.StringValue
		}
		return ""
	}
	out := sliceDevice{name: d.Name, kind: text("type"), uuid: text("uuid"), parent: text("parentUUID"), product: text("productName"), profile: text("profile"),
		pciBusID: text("resource.kubernetes.io/pciBusID"), minor: -1}
	minor, hasMinor := d.Attributes["minor"]
	_, hasIndex := d.Attributes["index"]
	if hasMinor && minor.IntValue != nil && *minor.IntValue >= 0 && *minor.IntValue <= 9999 {
		out.minor = int(*minor.IntValue)
	} else if m := minorName.FindStringSubmatch(d.Name); m != nil && !hasMinor && !hasIndex {
		out.minor, _ = strconv.Atoi(m[1]) // digits only
	}
	if memory, ok := d.Capacity["memory"]; ok && memory.Value.Value() > 0 {
		out.memoryMiB = uint64(memory.Value.Value()) >> 20
	}
	return out
}

// sameSlice reports whether two versions of a slice say the same.
func sameSlice(a, b *gpuSlice) bool {
	return a.node == b.node && a.pool == b.pool && a.generation == b.generation && a.count == b.count && slices.Equal(a.devices, b.devices)
}

// readSlices returns what the slices say of the GPUs of each node. A node of
// which a slice is missing has none: its driver is writing them.
func readSlices(all []*gpuSlice) map[string]*topology.Node {
	byNode := map[string][]*gpuSlice{}
	for _, s := range all {
		if s.node != "" {
			byNode[s.node] = append(byNode[s.node], s)
		}
	}
	out := make(map[string]*topology.Node, len(byNode))
	for node, its := range byNode {
		out[node] = nodeOfSlices(node, its)
	}
	return out
}

func nodeOfSlices(node string, its []*gpuSlice) *topology.Node {
	n := &topology.Node{Name: node}
	slices.SortFunc(its, func(a, b *gpuSlice) int { return cmp.Compare(a.Name, b.Name) })
	newest, found := map[string]int64{}, map[string]int64{}
	for _, s := range its {
		newest[s.pool] = max(newest[s.pool], s.generation)
	}
	var devices []sliceDevice
	its = slices.DeleteFunc(its, func(s *gpuSlice) bool { return s.generation < newest[s.pool] })
	for _, s := range its {
		found[s.pool]++
		devices = append(devices, s.devices...)
	}
	for _, s := range its {
		if found[s.pool] != s.count {
			n.Problems = []topology.Problem{{Node: node, Reason: ReasonSlicesIncomplete, Message: fmt.Sprintf("pool %s has %d of %d ResourceSlices", s.pool, found[s.pool], s.count)}}
			return n
		}
	}
	for i := range devices {
		if problem := addSliceDevice(n, &devices[i]); problem != "" {
			n.Problems = append(n.Problems, topology.Problem{Node: node, Reason: ReasonSliceUnreadable, Message: problem})
		}
	}
	slices.SortStableFunc(n.GPUs, func(a, b topology.GPU) int { return cmp.Compare(a.UUID, b.UUID) })
	checkMinors(n)
	return n
}

// addSliceDevice adds a GPU or a MIG instance to n, or says what of it makes no
// sense. A GPU that is lent to a virtual machine is none of Slurm's.
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

// gpuOf returns the GPU of that UUID, a new one where there is none.
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

// checkMinors forgets the minor numbers of GPUs that have one together: then
// the devices are not called by it.
func checkMinors(n *topology.Node) {
	seen := map[int]string{}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Minor == nil {
			continue
		}
		if other, ok := seen[*g.Minor]; ok {
			n.Problems = append(n.Problems, topology.Problem{Node: n.Name, Reason: ReasonSliceUnreadable, Message: fmt.Sprintf("GPUs %s and %s both have minor number %d", other, g.UUID, *g.Minor)})
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

// addSlices takes what the ResourceSlices say of the node's GPUs where there is no
// report, and whatever is wrong with it.
func (g *Gathered) addSlices(f *topology.Facts, snap *Snapshot) {
	n := snap.Slices[f.Name]
	if n == nil || f.Report != nil {
		return
	}
	f.Slices = n
	g.problems = append(g.problems, n.Problems...)
	if labelled := f.Labels.GPUs; labelled > 0 && len(n.GPUs) > 0 && labelled != len(n.GPUs) && !slices.ContainsFunc(n.GPUs, func(g topology.GPU) bool { return len(g.MIG) > 0 }) {
		g.problems = append(g.problems, topology.Problem{Node: f.Name, Reason: ReasonSlicesDiffer,
			Message: fmt.Sprintf("its ResourceSlices list %d GPUs, its labels count %d; the slices are followed", len(n.GPUs), labelled)})
	}
}
