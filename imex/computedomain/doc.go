// Package computedomain is the Kubernetes side of IMEX membership. For the
// publisher it keeps one ComputeDomain as it is configured and sees who joins
// it: the domain, the cliques and the channel claims of the whole cluster. For
// the agent it sees one node: what its label and its clique say.
//
// Everything is watched and nothing is polled: a cluster at rest asks nothing of
// the API server. It changes no domain that is there, because a spec is immutable,
// and deletes none. What follows from what is seen is
// package imex's to say.
package computedomain

// The words of NVIDIA's driver for ComputeDomains.
const (
	driverName     = "compute-domain.nvidia.com"
	channelClass   = "compute-domain-default-channel.nvidia.com" // of devices
	domainsCRD     = "computedomains.resource.nvidia.com"
	cliquesCRD     = "computedomaincliques.resource.nvidia.com"
	wantedNumNodes = 0 // the driver's advice: nodes join as they come
)
