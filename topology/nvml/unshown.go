//go:build cgo

package nvml

import (
	"os"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/adapters"
)

// unshown adds a problem of each GPU that the driver has on PCI and that is not among the count GPUs of
// NVML. GPUs of NVML without an address may be these: they have problems of their own.
func (l *Library) unshown(n *topology.Node, count int) {
	if l.givenSome() {
		return
	}
	addresses := map[string]bool{}
	for i := range n.GPUs {
		if id := n.GPUs[i].PCIBusID; id != "" {
			addresses[id] = true
		}
	}
	nameless := count - len(addresses)
	hidden := slices.DeleteFunc(adapters.GPUs(l.sys), func(id string) bool { return addresses[id] })
	if len(hidden) > nameless {
		excluded := l.excluded()
		hidden = slices.DeleteFunc(hidden, func(id string) bool { return slices.Contains(excluded, id) })
	}
	if len(hidden) <= nameless {
		return
	}
	for _, id := range hidden {
		n.Problems = append(n.Problems, topology.GPULostProblem(id))
	}
}

// excluded are the GPUs that the driver was told to leave out (NVreg_ExcludedGpus), by PCI address.
func (l *Library) excluded() (addresses []string) {
	if !l.has.all(exclusions) {
		return nil
	}
	count, ret := l.api.GetExcludedDeviceCount()
	for i := 0; ret == nvml.SUCCESS && i < count; i++ {
		var info nvml.ExcludedDeviceInfo
		if info, ret = l.api.GetExcludedDeviceInfoByIndex(i); ret == nvml.SUCCESS {
			addresses = append(addresses, busID(info.PciInfo))
		}
	}
	return addresses
}

// givenSome reports whether this process may use some of the machine's GPUs alone, as in a container
// or a job that was given them. NVML shows no others there, and /sys shows all.
func (l *Library) givenSome() bool {
	switch os.Getenv("NVIDIA_VISIBLE_DEVICES") {
	case "", "all":
		return os.Getenv("SLURM_JOB_ID") != ""
	case "void": // which NVIDIA's container toolkit sets with CDI, whatever was given
		return !l.whole
	}
	return true
}
