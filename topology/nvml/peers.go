//go:build cgo

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// readPeers reads the common PCIe ancestor of each pair of GPUs. It notes one error
// for each GPU.
func readPeers(n *topology.Node, devices []device) {
	for i := range n.GPUs {
		var failed error
		for j := i + 1; j < len(n.GPUs); j++ {
			a, b := &n.GPUs[i], &n.GPUs[j]
			ancestor, err := ancestorOf(devices[i].ancestor(devices[j]))
			if err != nil {
				if failed == nil && err != errUnsupported { //nolint:errorlint // never wrapped
					failed = fmt.Errorf("with GPU %s: %w", b.UUID, err)
				}
				continue
			}
			addPeer(a, b, ancestor)
			addPeer(b, a, ancestor)
		}
		note(n, "common ancestor of GPU "+n.GPUs[i].UUID, failed)
	}
}

// addPeer adds a peer whose PCI address is known.
func addPeer(to, peer *topology.GPU, ancestor string) {
	if peer.PCIBusID != "" {
		to.Peers = append(to.Peers, topology.Peer{PCIBusID: peer.PCIBusID, Ancestor: ancestor})
	}
}

func ancestorOf(level nvml.GpuTopologyLevel, ret nvml.Return) (string, error) {
	if err := failure(ret); err != nil {
		return "", err
	}
	switch level {
	case nvml.TOPOLOGY_INTERNAL:
		return "internal", nil
	case nvml.TOPOLOGY_SINGLE:
		return "single", nil
	case nvml.TOPOLOGY_MULTIPLE:
		return "multiple", nil
	case nvml.TOPOLOGY_HOSTBRIDGE:
		return "hostbridge", nil
	case nvml.TOPOLOGY_NODE:
		return "node", nil
	case nvml.TOPOLOGY_SYSTEM:
		return "system", nil
	}
	return "", fmt.Errorf("level %d is none that this version knows", level)
}
