package nodelabels

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// Auto stands in Keys for the labels of all known writers.
const Auto = "auto"

// maxTiers is how many numbered tiers of one writer are read. No Slurm tree is that
// deep.
const maxTiers = 10

// domainKeys are the labels that name an NVLink domain by a value of their own. Of two that as many
// nodes have, the first counts. accelerator.topograph.run/sub-domain is none: it is a part of a domain.
var domainKeys = []string{
	"accelerator.topograph.run/domain",              // Topograph 1.0
	"network.topology.nvidia.com/accelerator",       // Topograph before
	"topology.nebius.com/tier-0",                    // Soperator
	"ds.coreweave.com/nvlink.domain",                // CoreWeave, SUNK
	"topology.k8s.aws/ultraserver-id",               // SageMaker HyperPod
	"oci.oraclecloud.com/host.gpu_memory_fabric_id", // OKE
	"topology.nks.nscale.com/accelerator-domain",    // Nscale, which runs no GPU Feature Discovery
}

// onGKESubblock is Google's label of the nearest switches. On machines whose NVLink spans
// machines (A4X) it is the NVLink domain too.
const onGKESubblock = "cloud.google.com/gce-topology-subblock"

// tierSource is one writer of labels that name switches.
type tierSource struct {
	topology.TierSource
	// keys are nearest first.
	keys []string
	// optional are keys that may be absent between others.
	optional []string
	// within: a value has a meaning only together with the values of the further
	// keys, such as a number that is counted in each fabric.
	within bool
}

// tierSources are the known writers in their order of precedence.
var tierSources = ranked(
	tierSource{TierSource: topology.TierSource{Name: "Topograph", Unique: true}, keys: numbered("fabric.topograph.run/tier-", 0, maxTiers)},
	tierSource{TierSource: topology.TierSource{Name: "Topograph before 1.0", Unique: true}, keys: DefaultTiers},
	tierSource{TierSource: topology.TierSource{Name: "Soperator", Unique: true}, keys: numbered("topology.nebius.com/tier-", 1, maxTiers)},
	tierSource{TierSource: topology.TierSource{Name: "CoreWeave (backend)", Fabrics: true}, within: true, optional: []string{"backend.coreweave.cloud/superpod"},
		keys: []string{"backend.coreweave.cloud/leafgroup", "backend.coreweave.cloud/superpod", "backend.coreweave.cloud/fabric"}},
	tierSource{TierSource: topology.TierSource{Name: "CoreWeave (InfiniBand)", Fabrics: true}, within: true, optional: []string{"ib.coreweave.cloud/superpod"},
		keys: []string{"ib.coreweave.cloud/leafgroup", "ib.coreweave.cloud/superpod", "ib.coreweave.cloud/fabric"}},
	// A gce-topology-host is one node: no switch.
	tierSource{TierSource: topology.TierSource{Name: "Google Cloud", Unique: true}, keys: []string{onGKESubblock, "cloud.google.com/gce-topology-block"}},
	// The layer of the highest number is the nearest: some machines have four (Level).
	tierSource{TierSource: topology.TierSource{Name: sourceAWS, Unique: true}, optional: []string{"topology.k8s.aws/network-node-layer-4"},
		keys: []string{"topology.k8s.aws/network-node-layer-4", "topology.k8s.aws/network-node-layer-3",
			"topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-1"}},
	tierSource{TierSource: topology.TierSource{Name: "Oracle Cloud", Unique: true}, keys: []string{"oci.oraclecloud.com/rdma.local_block_id",
		"oci.oraclecloud.com/rdma.network_block_id", "oci.oraclecloud.com/rdma.hpc_island_id"}},
	// The machines of one pod may be in several partitions, which reach no other.
	tierSource{TierSource: topology.TierSource{Name: "Crusoe", Fabrics: true}, within: true, keys: []string{"crusoe.ai/pod.id", "crusoe.ai/ib.partition.id"}},
)

// DefaultTiers are the keys that Topograph wrote before 1.0, nearest first.
var DefaultTiers = []string{
	"network.topology.nvidia.com/leaf",
	"network.topology.nvidia.com/spine",
	"network.topology.nvidia.com/core",
}

func ranked(sources ...tierSource) []tierSource {
	for i := range sources {
		sources[i].Rank = i + 1 // 0 is that of configured keys
	}
	return sources
}

func numbered(prefix string, from, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint(prefix, from+i)
	}
	return keys
}

// read returns the switches above a node, nearest first. A tier that no label names is
// empty if a label names a further one.
func (s *tierSource) read(labels map[string]string) []string {
	var tiers []string
	missing := 0
	for i, key := range s.keys {
		v := labels[key]
		switch {
		case meansNothing(v) && slices.Contains(s.optional, key):
			continue
		case meansNothing(v) && s.within: // its own tiers would be others'
			return nil
		case meansNothing(v):
			missing++
			continue
		}
		if tiers == nil {
			tiers = make([]string, 0, len(s.keys)-i+missing)
		}
		for ; missing > 0; missing-- {
			tiers = append(tiers, "")
		}
		tiers = append(tiers, v)
	}
	if s.within {
		for i := len(tiers) - 2; i >= 0; i-- {
			tiers[i] = tiers[i+1] + "/" + tiers[i]
		}
	}
	return tiers
}
