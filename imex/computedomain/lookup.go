package computedomain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// unreadError says that something has never been read, and why, if that is
// known.
type unreadError struct {
	what string
	err  error
}

func (e *unreadError) Error() string {
	if e.err == nil {
		return e.what + " not read yet"
	}
	return fmt.Sprintf("%s not read yet: %v", e.what, e.err)
}

func (e *unreadError) Unwrap() error { return e.err }

// final reports whether the API server has answered and refused: waiting alone
// does not help.
func (e *unreadError) final() bool {
	return apierrors.IsForbidden(e.err) || apierrors.IsNotFound(e.err)
}

func (c *Cluster) unread(what string) error { return &unreadError{what, c.health.Of(what)} }

// key names the domain.
func (c *Cluster) key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.config.Namespace, Name: c.config.Name}
}

// noDomain is a domain that there is not.
func noDomain(config imex.Config, reason, message string) imex.Domain {
	return imex.Domain{Namespace: config.Namespace, Name: config.Name, Problem: topology.Problem{Reason: reason, Message: message}}
}

// unknownDomains is why there is none on a cluster without the driver.
const unknownDomains = "the API server does not know ComputeDomains"

// lookup returns the domain as it was last seen.
func (c *Cluster) lookup() (imex.Domain, domainFacts, error) {
	var none domainFacts
	is, read := c.domains.known()
	switch {
	case !read:
		return imex.Domain{}, none, c.unread(whatDomainsCRD)
	case !is:
		return noCRD(c.config, unknownDomains), none, nil
	}
	domains, read := c.domain.all()
	switch {
	case !read && apierrors.IsNotFound(c.health.Of(whatDomain)):
		return noCRD(c.config, fmt.Sprintf("the API server knows ComputeDomains, but not of %s", nvapi.SchemeGroupVersion)), none, nil
	case !read:
		return imex.Domain{}, none, c.unread(whatDomain)
	}
	facts, there := domains[c.key()]
	if !there {
		return c.absent(), none, nil
	}
	return c.judge(&facts), facts, nil
}

func noCRD(config imex.Config, seen string) imex.Domain {
	return noDomain(config, imex.ReasonNoCRD, seen+fmt.Sprintf(": install NVIDIA's DRA driver with ComputeDomains enabled; the definition %s is waited for", domainsCRD))
}

// judge says whether a domain that is there is the wanted one.
func (c *Cluster) judge(facts *domainFacts) imex.Domain {
	d := imex.Domain{Namespace: c.config.Namespace, Name: c.config.Name, UID: facts.uid, Deleting: facts.deleting}
	differences := facts.spec.differences(c.wanted())
	switch {
	case facts.deleting:
		d.Problem = topology.Problem{Reason: imex.ReasonDomainDeleting, Message: fmt.Sprintf("ComputeDomain %s is being deleted; it is made anew when it is gone", c.key())}
	case len(differences) > 0:
		d.Problem = topology.Problem{Reason: imex.ReasonDomainDiffers, Message: fmt.Sprintf(
			"ComputeDomain %s is not as configured, and its spec cannot be changed: %s; set imex.claimTemplate and imex.allocationMode to what it has, name another domain by imex.name, or delete this one as manifests/RUNBOOKS.md says",
			c.key(), strings.Join(differences, ", "))}
	}
	return d
}

func (c *Cluster) wanted() spec {
	return spec{numNodes: wantedNumNodes, template: c.config.ClaimTemplate, allocationMode: c.config.AllocationMode}
}

// allCliques returns the cliques of all domains. A driver without them has none.
func (c *Cluster) allCliques() ([]imex.Clique, error) {
	is, read := c.cliques.known()
	switch {
	case !read:
		return nil, c.unread(whatCliquesCRD)
	case !is:
		return nil, nil
	}
	cliques, read := c.clique.all()
	if !read {
		if err := c.unread(whatCliques); !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return slices.Collect(maps.Values(cliques)), nil
}
