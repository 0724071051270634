// Package computedomain is the Kubernetes side of IMEX membership. For the publisher
// it creates the configured ComputeDomain and observes who joins: the domain, the
// cliques and the channel claims of the whole cluster. For the agent it observes one
// node: its labels and its clique.
//
// Everything is watched by informers of client-go. A cluster at rest asks nothing of
// the API server. The package changes no domain, because a spec is immutable, and
// deletes none. Package imex judges what is seen.
package computedomain

// The words of NVIDIA's driver for ComputeDomains.
const (
	driverName     = "compute-domain.nvidia.com"
	channelClass   = "compute-domain-default-channel.nvidia.com" // of devices
	domainsCRD     = "computedomains.resource.nvidia.com"
	wantedNumNodes = 0 // the driver's advice: nodes join as they come
)
