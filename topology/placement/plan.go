// Package placement decides where every node of a cluster belongs.
//
// [MakePlan] turns what is [Observed] of all nodes now, what was published ([Previous]) and
// what the site wants ([Policy]) into a plan: blocks (one per NVLink clique), a switch tree
// if network tiers are known, and the place of every node with its reason.
//
// The package is pure: no clock, environment, files or network. It changes nothing that it
// is given. The same facts give the same plan whatever their order. It knows nothing of
// Slurm's file formats; package slurmconf writes those.
package placement

import (
	"cmp"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// Observed is what is known now.
type Observed struct {
	Facts []topology.Facts
	// Unnamed are the facts of nodes without a name in Slurm, such as nodes that have no
	// worker pod yet. They have no place, and count for the size of their domain.
	Unnamed []topology.Facts
	// InUse are the blocks and leaf switches that a node may still register with,
	// such as the ones in Slinky's annotations. slurmctld drains a node that names
	// an unknown one. They stay, even empty.
	InUse map[string]bool
	// Settling says which nodes may not move yet. It is nil if all may.
	Settling *Settling
	// FabricSince says by node since when its NVLink fabric is not ready, in words.
	FabricSince map[string]string
}

// Previous is what was published, which a plan carries on: order, names and sizes of blocks
// and switches.
type Previous struct {
	// Plan is nil if nothing was published. Its topologies are enough.
	Plan *topology.Plan
	// Reported are the Slurm names of nodes whose published devices came from
	// reports.
	Reported map[string]bool
}

// MakePlan decides where every node belongs. It fails only if no plan can be made: two nodes
// have one Slurm name, or the policy is out of range. All else is in the plan's nodes and
// problems.
//
// The stages up to Waiting.hold say where each node would go. If nodes wait, these stages run again with these nodes
// in their places, because a unit that waits takes no block and no switch from others. Sizes and order are chosen
// once: they move no node.
func MakePlan(o Observed, previous Previous, policy Policy) (*topology.Plan, Waiting, error) {
	w := Waiting{Moving: make(map[string]bool), Stay: make(map[string]bool)}
	if err := policy.validate(); err != nil {
		return nil, w, err
	}
	policy.MinBlockNodes = cmp.Or(policy.MinBlockNodes, 2)
	old := readPublished(&previous, o.InUse, &policy)
	nodes, unnamed, ofSite, err := readNodes(&o, old, &policy)
	if err != nil {
		return nil, w, err
	}
	follows, inPartitions := w.followPartitions(nodes, old, o.Settling, &policy)
	for {
		t, inTree := makeTree(factsOf(nodes), old, o.InUse, &policy)
		for i, n := range nodes {
			n.named, n.leaf = t.namedLeaf(i), t.leaves[i]
		}
		aliases, inUnits := settleUnits(nodes, unnamed, &policy)
		ds, unnamedSizes := domains(nodes, unnamed, aliases, &policy)
		match(ds, nodes, old, follows, &policy)
		overfull, inHold := hold(ds, nodes, old, &policy)
		blocks, inBlocks := carryOn(ds, nodes, old, &policy)
		parts, inParts := divide(leaveOutSmall(blocks, &policy), unnamedSizes, t, old, &policy)
		if w.hold(nodes, parts, t, o.Settling, previous.Plan, &policy) {
			continue
		}
		w.Overfull = overfull
		plan := &topology.Plan{ByLeaf: policy.ByLeaf}
		topologies, inSizes, err := arrange(parts, old, &policy)
		if err != nil {
			return nil, w, err
		}
		if plan.Topologies = topologies; len(t.switches) > 0 {
			plan.Topologies = append(plan.Topologies, topology.Topology{Name: topology.FabricTopology, Kind: topology.KindTree, Source: t.source, Switches: t.switches})
		}
		placements, inPlaces := explain(nodes, len(topologies) > 0)
		plan.Nodes = placements
		plan.Problems = slices.Concat(ofSite, inPartitions, inTree, inUnits, inHold, inBlocks, inParts, inSizes, inPlaces, nameSwitchless(nodes, plan, &policy))
		slices.SortFunc(plan.Problems, topology.CompareFindings)
		return plan, w, nil
	}
}

// The reasons of placements and problems.
const (
	ReasonPlaced          = "Placed"
	ReasonNoGPUs          = "NoGPUs"
	ReasonNoFacts         = "NoFacts"
	ReasonNoDomain        = "NoNVLinkDomain"
	ReasonSmallDomain     = "SmallDomain"
	ReasonAboveBase       = "AboveBaseBlockSize"
	ReasonJobSizes        = "JobSizesImpossible"
	ReasonClassesUnset    = "SizeClassesUnset"
	ReasonOtherTopology   = "OtherTopology"
	ReasonNoFabric        = "FabricUnknown"
	ReasonGone            = "NodeGone"
	ReasonStays           = "Stays"
	ReasonForgottenInUse  = "ForgottenBlockInUse"
	ReasonForgottenSwitch = "ForgottenSwitchInUse"
	ReasonCliqueDiffers   = "CliqueLabelDiffers"
	ReasonDomainDiffers   = "DomainLabelDiffers"
	ReasonDomainConflict  = "DomainLabelConflict"
	// ReasonUnconfirmed: the GPUs of a published node name another clique or none,
	// and no second reading of this boot confirms it.
	ReasonUnconfirmed   = "DomainUnconfirmed"
	ReasonTierConflict  = "TierConflict"
	ReasonTiersMissing  = "TierLabelsMissing"
	ReasonCablesMissing = "CablesMissing"
	ReasonCablesDiffer  = "CablesDiffer"
	ReasonRootAssumed   = "RootAssumed"
	ReasonLeavesApart   = "LeavesApart"
	ReasonParentsMixed  = "ParentDomainsMixed"
	ReasonAboveParent   = "AboveParentBlocks"
	ReasonNoParent      = "NoParentDomain"
	ReasonParentsUnset  = "ParentBlocksUnset"
	// ReasonTopologiesApart: racks are in several block topologies, and no job runs across them.
	ReasonTopologiesApart = "TopologiesApart"
	// ReasonSwitchesUnknown: nodes have no NVLink between them, and no switch is known.
	ReasonSwitchesUnknown = "SwitchesUnknown"
)
