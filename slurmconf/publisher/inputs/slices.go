package inputs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// ReasonBadSlices is the problem of a node whose ResourceSlices lack one, make no sense, or differ from its labels.
const ReasonBadSlices = "BadResourceSlices"

// SliceReader reads the spec of the ResourceSlice of a name, as JSON. It returns nil if the
// ResourceSlice is not one of NVIDIA's driver.
type SliceReader func(name string, spec []byte) (*Slice, error)

// Slice is the part of a ResourceSlice of NVIDIA's driver that is used.
type Slice struct {
	Name, Node, Pool string
	// Generation is the pool's. Count is the number of slices of the pool.
	Generation, Count int64
	Devices           []Device
}

// Device is a device of a Slice. Kind is gpu, mig or vfio. A MIG instance without a UUID does
// not exist yet; Parent is the UUID of its GPU.
type Device struct {
	Name, Kind, UUID, Parent, Product, Profile, PCIBusID string
	Minor                                                int // below 0 if it is not known
	MemoryMiB                                            uint64
}

// Same reports whether two versions of a slice say the same.
func (s *Slice) Same(next *Slice) bool {
	return s.Node == next.Node && s.Pool == next.Pool && s.Generation == next.Generation && s.Count == next.Count && slices.Equal(s.Devices, next.Devices)
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
	var devices []Device
	its = slices.DeleteFunc(its, func(s *Slice) bool { return s.Generation < newest[s.Pool] })
	for _, s := range its {
		found[s.Pool]++
		devices = append(devices, s.Devices...)
	}
	for _, s := range its {
		if found[s.Pool] != s.Count {
			n.Problems = []topology.Finding{{Subject: topology.Subject{Node: node}, Reason: ReasonBadSlices, Message: fmt.Sprintf("pool %s has %d of %d ResourceSlices", s.Pool, found[s.Pool], s.Count)}}
			return n
		}
	}
	for i := range devices {
		if problem := addDevice(n, &devices[i]); problem != "" {
			n.Problems = append(n.Problems, topology.Finding{Subject: topology.Subject{Node: node}, Reason: ReasonBadSlices, Message: problem})
		}
	}
	slices.SortStableFunc(n.GPUs, func(a, b topology.GPU) int { return cmp.Compare(a.UUID, b.UUID) })
	checkMinors(n)
	return n
}

// addDevice adds a GPU or a MIG instance to n, or says what is wrong with the device.
// A GPU that is lent to a virtual machine (vfio) is not Slurm's.
func addDevice(n *topology.Node, d *Device) (problem string) {
	switch d.Kind {
	case "gpu":
		if d.UUID == "" {
			return "device " + d.Name + " has no uuid"
		}
		g := gpuOf(n, d.UUID)
		g.Product, g.MemoryMiB, g.PCIBusID, g.Minor = d.Product, d.MemoryMiB, longPCIBusID(d.PCIBusID), minorOf(d)
	case "mig":
		if d.UUID == "" {
			return ""
		}
		if d.Parent == "" || d.Profile == "" {
			return "device " + d.Name + " has no parentUUID or no profile"
		}
		g := gpuOf(n, d.Parent)
		g.Product = cmp.Or(g.Product, d.Product)
		if g.Minor == nil {
			g.Minor = minorOf(d)
		}
		g.MIG = append(g.MIG, topology.MIGInstance{UUID: d.UUID, Profile: d.Profile})
	case "vfio":
	default:
		return fmt.Sprintf("device %s has type %q: want gpu, mig or vfio", d.Name, d.Kind)
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

func minorOf(d *Device) *int {
	if d.Minor < 0 {
		return nil
	}
	minor := d.Minor
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
			n.Problems = append(n.Problems, topology.Finding{Subject: topology.Subject{Node: n.Name}, Reason: ReasonBadSlices, Message: fmt.Sprintf("GPUs %s and %s both have minor number %d", other, g.UUID, *g.Minor)})
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

// judgeSlices adds the problems of the node's ResourceSlices, if they count.
func (in *Inputs) judgeSlices(f *topology.Facts) {
	n := f.Slices
	if n == nil {
		return
	}
	in.Problems = append(in.Problems, n.Problems...)
	if labelled := f.Labels.GPUs; labelled > 0 && len(n.GPUs) > 0 && labelled != len(n.GPUs) && !slices.ContainsFunc(n.GPUs, func(g topology.GPU) bool { return len(g.MIG) > 0 }) {
		in.Problems = append(in.Problems, topology.Finding{Subject: topology.Subject{Node: f.Name}, Reason: ReasonBadSlices,
			Message: fmt.Sprintf("its ResourceSlices list %d GPUs, its labels count %d; the slices count", len(n.GPUs), labelled)})
	}
}
