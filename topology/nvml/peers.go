//go:build cgo

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// ancestors are the names of NVML's levels.
var ancestors = map[nvml.GpuTopologyLevel]string{
	nvml.TOPOLOGY_INTERNAL:   "internal",
	nvml.TOPOLOGY_SINGLE:     "single",
	nvml.TOPOLOGY_MULTIPLE:   "multiple",
	nvml.TOPOLOGY_HOSTBRIDGE: "hostbridge",
	nvml.TOPOLOGY_NODE:       "node",
	nvml.TOPOLOGY_SYSTEM:     "system",
}

// readPeers reads the common PCIe ancestor of each pair of GPUs. It notes one error
// for each GPU.
func readPeers(n *topology.Node, devices map[string]nvml.Device) {
	for i := range n.GPUs {
		a := &n.GPUs[i]
		var failed error
		for j := i + 1; j < len(n.GPUs); j++ {
			b := &n.GPUs[j]
			level, ret := devices[a.UUID].GetTopologyCommonAncestor(devices[b.UUID])
			err := failure(ret)
			if err == nil && ancestors[level] == "" {
				err = fmt.Errorf("level %d is none that this version knows", level)
			}
			switch {
			case err == nil:
				addPeer(a, b, ancestors[level])
				addPeer(b, a, ancestors[level])
			case failed == nil && err != errUnsupported: //nolint:errorlint // never wrapped
				failed = fmt.Errorf("with GPU %s: %w", b.UUID, err)
			}
		}
		note(n, "common ancestor of GPU "+a.UUID, failed)
	}
}

// addPeer adds a peer whose PCI address is known.
func addPeer(to, peer *topology.GPU, ancestor string) {
	if peer.PCIBusID != "" {
		to.Peers = append(to.Peers, topology.Peer{PCIBusID: peer.PCIBusID, Ancestor: ancestor})
	}
}
