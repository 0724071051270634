package computedomain

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
)

// domainFacts is what is kept of a ComputeDomain.
type domainFacts struct {
	uid      string
	spec     spec
	deleting bool
	members  map[string]imex.Member // by node
}

// spec is that of a ComputeDomain.
type spec struct {
	numNodes                 int
	template, allocationMode string
}

// readDomain reads a ComputeDomain. Its status.status is left out on purpose: it
// says nothing of a node.
func readDomain(obj any) (domainFacts, bool) {
	cd, ok := obj.(*nvapi.ComputeDomain)
	if !ok {
		return domainFacts{}, false
	}
	d := domainFacts{uid: string(cd.UID), deleting: cd.DeletionTimestamp != nil, spec: spec{numNodes: cd.Spec.NumNodes}, members: make(map[string]imex.Member, len(cd.Status.Nodes))}
	if c := cd.Spec.Channel; c != nil {
		d.spec.template = c.ResourceClaimTemplate.Name
		d.spec.allocationMode = cmp.Or(c.AllocationMode, nvapi.ComputeDomainChannelAllocationModeSingle)
	}
	for _, n := range cd.Status.Nodes {
		if n != nil {
			d.members[n.Name] = imex.Member{Node: n.Name, Address: n.IPAddress, Clique: n.CliqueID, Index: n.Index, Ready: n.Status == nvapi.ComputeDomainStatusReady}
		}
	}
	return d, true
}

// differences names the keys in which the spec is not the wanted one.
func (s spec) differences(want spec) []string {
	var out []string
	for _, key := range []struct {
		name     string
		is, want any
	}{
		{"spec.numNodes", s.numNodes, want.numNodes},
		{"spec.channel.resourceClaimTemplate.name", s.template, want.template},
		{"spec.channel.allocationMode", s.allocationMode, want.allocationMode},
	} {
		if !reflect.DeepEqual(key.is, key.want) {
			out = append(out, fmt.Sprintf("%s is %v, not %v", key.name, key.is, key.want))
		}
	}
	return out
}

// readClique reads a ComputeDomainClique, whose name says of which domain and
// clique it is.
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
