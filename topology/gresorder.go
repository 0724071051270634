package topology

import (
	"cmp"
	"slices"
)

// GRESDevice is one device that Slurm counts: a GPU, or a MIG instance of it. A GPU
// with MIG on and no instance has none.
type GRESDevice struct {
	GPU *GPU
	// MIG is nil for a whole GPU.
	MIG *MIGInstance
}

// GRESDevices returns the node's devices in the order of Slurm's GRES indices,
// where every product has a Type of its own.
func (n *Node) GRESDevices() []GRESDevice {
	return n.GRESDevicesBy(func(product string) string { return product })
}

// GRESDevicesBy returns the node's devices in the order of Slurm's GRES indices,
// where typeOf says the Type of a product: two may have one.
//
// slurmd puts the devices of one Type together, whatever their order in
// gres.conf, and the types in the order that slurm.conf's Gres= has. So the
// devices of one kind, which is a Type or a MIG profile of it, are together
// here: by minor number, and the kinds as their first device is met.
func (n *Node) GRESDevicesBy(typeOf func(product string) string) []GRESDevice {
	devices := n.devicesByFile()
	type kind struct{ typ, profile string }
	kinds := map[kind]int{}
	of := func(d GRESDevice) int {
		k := kind{typ: typeOf(d.GPU.Product)}
		if d.MIG != nil {
			k.profile = "MIG " + d.MIG.Profile
		}
		if _, met := kinds[k]; !met {
			kinds[k] = len(kinds)
		}
		return kinds[k]
	}
	for _, d := range devices {
		of(d)
	}
	if len(kinds) > 1 {
		slices.SortStableFunc(devices, func(a, b GRESDevice) int { return cmp.Compare(of(a), of(b)) })
	}
	return devices
}

// The ways in which slurmd may find GPUs by itself: its plugins gpu/nvidia and
// gpu/nvml.
const (
	DetectedByNvidia = "nvidia"
	DetectedByNVML   = "nvml"
)

// GRESDevicesDetected returns the node's devices in the order of Slurm's GRES
// indices where slurmd finds them in this way. It then keeps no types together.
//
// By nvidia they are in the order of their device files. By nvml they are in
// NVML's, and of MIG instances the first of every GPU comes before the second of
// any, those of one place by device file: Slurm sorts by where -1 is among a
// device's Links, and the plugin counts instances within their GPU. NVML's numbers
// of instances are not in a report; they are taken to follow the instances' ids.
// By nvidia instances are not found at all, so gres.conf has to list them: of a
// node that has some the order is that of GRESDevicesBy.
func (n *Node) GRESDevicesDetected(way string, typeOf func(product string) string) []GRESDevice {
	if way == DetectedByNvidia && n.HasMIG() {
		return n.GRESDevicesBy(typeOf)
	}
	devices := n.devicesByFile()
	if way != DetectedByNVML {
		return devices
	}
	place := func(d GRESDevice) int {
		if d.MIG == nil {
			return d.GPU.Index
		}
		return slices.IndexFunc(d.GPU.MIG, func(m MIGInstance) bool { return m.UUID == d.MIG.UUID })
	}
	slices.SortStableFunc(devices, func(a, b GRESDevice) int { return cmp.Compare(place(a), place(b)) })
	return devices
}

// HasMIG reports whether MIG is on in one of the node's GPUs.
func (n *Node) HasMIG() bool {
	return slices.ContainsFunc(n.GPUs, func(g GPU) bool { return len(g.MIG) > 0 || g.MIGEmpty })
}

// devicesByFile returns the node's devices by the device files of their GPUs.
func (n *Node) devicesByFile() []GRESDevice {
	gpus := n.GRESOrder()
	devices := make([]GRESDevice, 0, len(gpus))
	for i := range gpus {
		g := &gpus[i]
		if len(g.MIG) == 0 && !g.MIGEmpty {
			devices = append(devices, GRESDevice{GPU: g})
		}
		for k := range g.MIG {
			devices = append(devices, GRESDevice{g, &g.MIG[k]})
		}
	}
	return devices
}
