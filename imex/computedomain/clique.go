package computedomain

import (
	"strings"

	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
)

// readClique reads a ComputeDomainClique. Its name is the domain's UID and the clique.
func readClique(obj any) (imex.Clique, bool) {
	c, ok := obj.(*nvapi.ComputeDomainClique)
	if !ok {
		return imex.Clique{}, false
	}
	out := imex.Clique{}
	out.Domain, out.ID, _ = strings.Cut(c.Name, ".")
	for _, d := range c.Daemons {
		if d != nil {
			out.Daemons = append(out.Daemons, imex.Member{Node: d.NodeName, Address: d.IPAddress, Clique: d.CliqueID, Index: d.Index, Ready: d.Status == nvapi.ComputeDomainStatusReady})
		}
	}
	return out, true
}
