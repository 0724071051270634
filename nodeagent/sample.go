package nodeagent

import "github.com/quoin-hpc/quoin/topology"

// Sampled wants samples of the node's devices while jobs hold them.
type Sampled interface {
	// Wanted returns the UUIDs of the devices to sample; none stops the sampling.
	Wanted() []string
	// Changed is signalled when Wanted has changed.
	Changed() <-chan struct{}
	// Take takes a sample. It may lack devices that were wanted.
	Take(s topology.Sample)
}
