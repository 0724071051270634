package publisher

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// The kinds of decisions about the kind of a topology in the file.
const (
	// reasonKindChange is why the first blocks wait where a tree is published.
	reasonKindChange = "KindChange"
	// reasonTopologyInUse is why a topology waits that would change between blocks and switches
	// while Node annotations name its units. It also names a topology that is no longer configured
	// and stays in the file.
	reasonTopologyInUse = "TopologyInUse"
)

// choices returns the decisions that people look at first, of what was made. They are about choices of the plan, about
// the kind of a topology, and about NVLink partitions.
func choices(p *publication.Cluster, in *gathered, made *Rendered) []placement.Choice {
	if in.prev.Plan == nil || made.Plan == nil {
		return nil
	}
	out := slices.Clone(made.choices)
	for i := range out {
		if out[i].Kind == placement.TopologiesChange {
			out[i].Message = slurmconf.TopologyGoes(out[i].Subject, out[i].To, made.Plan)
		}
	}
	return slices.Concat(out, kindChange(p, in, made), repartitioned(p, in, made))
}

// kindChange finds a topology of the file that would change between switches and blocks: one that
// Node annotations name, or the default topology of a site whose first blocks are known.
func kindChange(p *publication.Cluster, in *gathered, made *Rendered) []placement.Choice {
	prev := &in.prev
	if from, to := prev.changesKind(in.inUse, made); from != nil && p.Annotates {
		return []placement.Choice{{Decision: placement.Decision{Kind: reasonTopologyInUse, Subject: from.Name, From: from.Kind, To: to.Kind},
			Message: fmt.Sprintf("topology %s would change between switches and blocks while Node annotations still name its blocks or switches, and topology.conf holds one topology; "+
				"configure format: yaml, which holds both, and format: conf again when no annotation names the old ones; if approved now, slurmctld does not start while nodes are registered with the old ones", from.Name)}}
	}
	followsBlocks := p.DefaultTopology != topology.FabricTopology && p.DefaultTopology != topology.FlatTopology
	blocks := slices.ContainsFunc(made.topologies, func(t topology.Topology) bool { return t.Kind == topology.KindBlock })
	if p.Topology != string(slurmconf.KindAuto) || !followsBlocks || !blocks || len(prev.Plan.Blocks()) > 0 || len(prev.Plan.Switches()) == 0 {
		return nil
	}
	return []placement.Choice{{Decision: placement.Decision{Kind: reasonKindChange, Subject: "default topology", From: topology.KindTree, To: topology.KindBlock},
		Message: "the first NVLink domains are known: the default topology would change from tree to block, and slurm.conf's TopologyPlugin and the partitions must follow; configure topology: tree to keep the tree"}}
}
