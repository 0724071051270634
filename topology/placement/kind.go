package placement

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// keepKind decides whether a topology of the file changes between switches and blocks: one that Node annotations name,
// or the default topology of a site whose first blocks are known. While that waits, the kind stays that is published.
func keepKind(parts []*part, t tree, o *Observed, published *topology.Plan, policy *Policy) {
	if published == nil {
		return
	}
	kinds := policy.kindsInFile(parts, t)
	for i := range published.Topologies {
		old := &published.Topologies[i]
		to, inUse := kinds[old.Name], policy.Annotates && old.Kind != topology.KindFlat && o.InUse[old.Name+":"]
		if to == "" || !inUse || (to == topology.KindBlock) == (old.Kind == topology.KindBlock) {
			continue
		}
		if policy.follow(Choice{Decision: Decision{Kind: TopologyInUse, Subject: old.Name, From: old.Kind, To: to},
			Message: fmt.Sprintf("topology %s would change between switches and blocks while Node annotations still name its blocks or switches, and topology.conf holds one topology; "+
				"configure format: yaml, which holds both, and format: conf again when no annotation names the old ones; if approved now, slurmctld does not start while nodes are registered with the old ones", old.Name)}) != nil {
			policy.TreeOnly = old.Kind != topology.KindBlock
		}
		return
	}
	blocks := slices.Contains(slices.Collect(maps.Values(kinds)), topology.KindBlock)
	if !blocks || policy.BlocksOnly || policy.OtherDefault || len(published.Blocks()) > 0 || len(published.Switches()) == 0 {
		return
	}
	if policy.follow(Choice{Decision: Decision{Kind: KindChange, Subject: "default topology", From: topology.KindTree, To: topology.KindBlock},
		Message: "the first NVLink domains are known: the default topology would change from tree to block, and slurm.conf's TopologyPlugin and the partitions must follow; configure topology: tree to keep the tree"}) != nil {
		policy.TreeOnly = true
	}
}

// kindsInFile returns the kinds of the topologies in the next file, by name.
func (p *Policy) kindsInFile(parts []*part, t tree) map[string]string {
	kinds, name := make(map[string]string), func(of string) string { return of }
	if p.OneTopology {
		name = func(string) string { return topology.ConfTopology }
	}
	if len(t.switches) > 0 && !p.BlocksOnly {
		kinds[name(topology.FabricTopology)] = topology.KindTree
	}
	for _, part := range parts { // a file of one topology has the blocks, if there are any
		if len(part.domains) > 0 && !p.TreeOnly {
			kinds[name(part.name)] = topology.KindBlock
		}
	}
	return kinds
}
