package placement

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// explain says of every node why it is where it is, or why it is nowhere, and which of these places are a problem.
// Without blocks the switches are all that is published.
func explain(nodes []*node, blocks bool) (placements []topology.Placement, found problems) {
	placements = make([]topology.Placement, len(nodes))
	for i, n := range nodes {
		if n.block == nil {
			n.source = unknown
		}
		switch {
		case n.source == fromPrevious:
			where := "stays in its published block: "
			if n.block.old != n.old { // carryOn has given the nodes of both to one of them
				where = fmt.Sprintf("block %s is the same NVLink domain as its published block: ", n.block.name)
			}
			n.message = where + n.message
		case n.block != nil || !blocks && n.leaf != "":
			n.reason, n.message = ReasonPlaced, ""
		}
		placements[i] = topology.Placement{Node: n.Name, SlurmName: n.SlurmName, NodeUnknown: n.NodeUnknown, Source: n.source.String(), Reason: n.reason, Message: n.message}
		if n.isProblem() {
			found.add(n.Name, n.reason, n.message)
		}
	}
	return placements, found
}

// isProblem reports whether the place of the node is a problem that nothing else names.
func (n *node) isProblem() bool {
	stays := n.source == fromPrevious
	switch n.reason {
	case ReasonHeld:
		return true
	case ReasonNoDomain, ReasonNoFacts: // a problem of labels or of the report is named already
		return stays && n.Report != nil && (n.reason == ReasonNoDomain || len(n.Report.Problems) == 0)
	case ReasonNoGPUs:
		return stays
	}
	return false
}

// nameSwitchless says what to do on a site without any place that Slurm could schedule by: NVLink ends
// in its machines, or is not wanted, and no switch is known.
func nameSwitchless(nodes []*node, plan *topology.Plan, policy *Policy) (found problems) {
	placed := slices.ContainsFunc(plan.Topologies, func(t topology.Topology) bool { return t.Kind == topology.KindTree || !policy.TreeOnly })
	if placed || policy.Flat {
		return nil
	}
	equal := 0
	for _, n := range nodes {
		switch reason := n.reason; {
		case reason == ReasonNoDomain,
			reason == topology.ReasonDomainImplausible && n.Fabric.Place == topology.PlaceNone,
			reason == ReasonPlaced && policy.TreeOnly,
			reason == ReasonNoSwitch && policy.ByLeaf:
			equal++
		}
	}
	if equal == 0 {
		return nil
	}
	what := "NVLink ends in the machine (%s), so Slurm places jobs by switches"
	switch {
	case policy.TreeOnly:
		what = "topology: tree publishes switches alone (%s)"
	case policy.ByLeaf:
		what = "blocksBy: leaf makes a block of each leaf switch (%s)"
	}
	flat := "set flatTopology: true if all nodes are equally near"
	if policy.OneTopology {
		flat = "leave TopologyPlugin out of slurm.conf if all nodes are equally near: Slurm then needs no topology file"
	}
	found.add("", ReasonSwitchesUnknown, fmt.Sprintf(what+", and no switch is known: have the cables read (key fabricFiles; try it by quoin map --ibnetdiscover), or label the nodes with their switches (manifests/docs/first-map.md says how), or %s", countText(equal), flat))
	return found
}

// countText counts nodes in words.
func countText(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
