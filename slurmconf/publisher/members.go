package publisher

import (
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// domainLabel is the label by which NVIDIA's driver starts a node's IMEX daemon.
const domainLabel = imex.DomainLabel

// Members returns what a Snapshot says of the nodes themselves. workers are the nodes
// with worker pods of Slurm, or nil if nobody looked.
func Members(snap *inputs.Snapshot, workers map[string]bool) map[string]imex.Node {
	out := make(map[string]imex.Node, len(snap.Nodes))
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		m := imex.NodeOf(n.Name, snap.Reports[n.Name])
		m.GPUs = m.GPUs || n.GPUs > 0 || n.Labels[nodelabels.Count] != ""
		m.CliqueLabel, m.DomainLabel = n.Labels[topology.CliqueLabel], n.Labels[domainLabel]
		m.Lost = n.Lost
		m.Worker, m.NoWorker = workers[n.Name], workers != nil && !workers[n.Name]
		// A node without any facts is not judged, unless it is a member.
		m.GPUs = m.GPUs && (m.Fabric != imex.FabricUnknown || m.CliqueLabel != "" || m.DomainLabel != "")
		out[n.Name] = m
	}
	return out
}
