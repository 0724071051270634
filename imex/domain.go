package imex

import (
	"cmp"
	"errors"

	"github.com/quoin-hpc/quoin/topology"
)

// checkNeed is about nodes that have nothing to join.
func checkNeed(v *view, n *node) finding {
	switch {
	case n.Fabric == FabricNone:
		return finding{reason: ReasonNoMultiNodeNVLink, message: "NVLink connects none of its GPUs to another node: jobs need no IMEX here"}
	case v.Join == JoinNone:
		return finding{reason: ReasonNotWanted, message: "imex.join is none: nodes join no domain"}
	case n.Clique == "" && namesNoClique(n.CliqueLabel):
		return finding{reason: ReasonNoMultiNodeNVLink, message: "label " + topology.CliqueLabel + " is " + n.CliqueLabel + ", which names no clique: jobs need no IMEX here"}
	}
	return finding{}
}

// namesNoClique reports whether a clique label says that there is no clique.
func namesNoClique(label string) bool {
	if label == "" {
		return false
	}
	_, err := topology.ParseClique(label)
	return errors.Is(err, topology.ErrNoDomain)
}

// checkDomain is about a domain that no node can join.
func checkDomain(v *view, _ *node) finding {
	d := &v.Domain
	reason, message := d.Problem.Reason, d.Problem.Message
	if reason == "" && !d.Deleting {
		return finding{}
	}
	name := "ComputeDomain " + d.Namespace + "/" + d.Name
	switch {
	case d.Deleting:
		reason, message = ReasonDomainDeleting, name+" is being deleted, which ends the IMEX daemons of all its nodes"
	case domainRemedy(reason) == "":
		message = d.Problem.String()
		if reason = ReasonDomainDiffers; d.UID == "" {
			reason = ReasonNoDomain
		}
	}
	return finding{reason, cmp.Or(message, name+" cannot be joined"), domainRemedy(reason)}
}

// domainRemedy returns the remedy of a domain's problem, empty for an unknown reason.
func domainRemedy(reason string) string {
	switch reason {
	case ReasonNoDomain:
		return "wait until the publisher creates the domain; if that takes long, its log says why it cannot"
	case ReasonNoCRD:
		return "install NVIDIA's DRA driver with compute domains (its Helm chart has the CRDs), or set imex.join to none"
	case ReasonDomainDiffers:
		return "set the keys below imex to what the domain has, because its spec cannot be changed; or delete the domain as manifests/RUNBOOKS.md says, and the publisher creates it again"
	case ReasonDomainForbidden:
		return "allow the publisher to get, list, watch and create ComputeDomains"
	case ReasonDomainDeleting:
		return "start no job across nodes; end the pods that claim its channels, so that the deletion completes and the publisher creates the domain again"
	}
	return ""
}

// domainText names the domain that the node is to join.
func domainText(v *view, n *node) string {
	if v.Domain.Name == "" {
		return n.wanted
	}
	return n.wanted + " (" + v.Domain.Namespace + "/" + v.Domain.Name + ")"
}
