package computedomain

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// domainFacts are the facts of a ComputeDomain.
type domainFacts struct {
	uid      string
	spec     spec
	deleting bool
	members  map[string]imex.Member // by node
}

// spec is the spec of a ComputeDomain.
type spec struct {
	numNodes                 int
	template, allocationMode string
}

// readDomain reads a ComputeDomain, but not its status.status, which says nothing
// about a node.
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
			out.Daemons = append(out.Daemons, imex.Member{Node: d.NodeName, Address: d.IPAddress, Clique: out.ID, Index: d.Index, Ready: d.Status == nvapi.ComputeDomainStatusReady})
		}
	}
	return out, true
}

// differences names the keys in which the spec cannot serve the configuration. A domain
// with all channels serves who wants one.
func (s spec) differences(config imex.Config) []string {
	var out []string
	add := func(key string, is, want any) {
		if is != want {
			out = append(out, fmt.Sprintf("%s is %v, not %v", key, is, want))
		}
	}
	add("spec.numNodes", s.numNodes, wantedNumNodes)
	add("spec.channel.resourceClaimTemplate.name", s.template, config.ClaimTemplate)
	if s.allocationMode != imex.AllocateAll {
		add("spec.channel.allocationMode", s.allocationMode, config.AllocationMode)
	}
	return out
}

// keyOf names the configured domain.
func keyOf(config imex.Config) types.NamespacedName {
	return types.NamespacedName{Namespace: config.Namespace, Name: config.Name}
}

// unseen returns the configured domain while nothing else is known about it.
func unseen(config *imex.Config) imex.Domain {
	return imex.Domain{Namespace: config.Namespace, Name: config.Name}
}

// domainOf says whether a domain that is there is the configured one. One that is adopted is taken as it is.
func domainOf(config imex.Config, facts *domainFacts, adopted bool) imex.Domain {
	d := unseen(&config)
	d.UID = facts.uid
	differences := facts.spec.differences(config)
	switch {
	case facts.deleting:
		then := "so that the deletion completes and the publisher creates the domain again; for pods of the driver that stay Terminating see manifests/RUNBOOKS.md"
		if adopted {
			then = "and create the domain again as it was"
		}
		d.Problem = topology.Finding{Reason: imex.DomainDeleting, Message: fmt.Sprintf("ComputeDomain %s is being deleted, which ends the IMEX daemons of all its nodes", keyOf(config)),
			Remedy: "start no job across nodes; end the pods that claim its channels, " + then}
	case !adopted && len(differences) > 0:
		d.Problem = topology.Finding{Reason: imex.DomainDiffers, Message: fmt.Sprintf(
			"ComputeDomain %s is not as configured, and its spec cannot be changed: %s", keyOf(config), strings.Join(differences, ", ")),
			Remedy: "set the keys below imex to what the domain has, or name another domain by imex.name; or delete this one as manifests/RUNBOOKS.md says, and the publisher creates it again"}
	}
	return d
}

// noDriver is the domain of a cluster whose driver serves none.
func noDriver(config *imex.Config, message string) imex.Domain {
	d := unseen(config)
	d.Problem = topology.Finding{Reason: imex.ReasonNoDriver, Message: message, Remedy: imex.NoDriverRemedy}
	return d
}

// withoutDaemons is the domain of a cluster whose driver starts no daemons. That is as it
// is to be if the nodes' own services serve.
func withoutDaemons(config *imex.Config, serves imex.Service) imex.Domain {
	switch {
	case serves != imex.HostServices:
		return noDriver(config, "there is no DeviceClass "+channelClass+": NVIDIA's DRA driver does not serve ComputeDomains here, whether their CRDs are there or not")
	case config.Join == imex.JoinAuto:
		return unseen(config)
	}
	return noDriver(config, "there is no DeviceClass "+daemonClass+": NVIDIA's DRA driver starts no IMEX daemons, because the hosts' own nvidia-imex.service serves")
}
