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

// GRESDevices returns the node's devices in the order of Slurm's GRES indices, if
// every product has a Type of its own.
func (n *Node) GRESDevices() []GRESDevice {
	return n.GRESDevicesBy(func(product string) string { return product })
}

// GRESDevicesBy returns the node's devices in the order of Slurm's GRES indices.
// typeOf returns the Type of a product; two products may share one.
//
// slurmd puts the devices of one Type together, whatever their order in gres.conf.
// The types come in the order of slurm.conf's Gres=. So this function puts the
// devices of one kind together: a kind is a Type, or a MIG profile of a Type.
// Devices are in the order of their minor numbers, and kinds in the order of their
// first devices.
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
