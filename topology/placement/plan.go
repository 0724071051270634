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
	"maps"

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
	// OfFabrics are findings about the NVLink fabrics of the whole site. The verdict on each node is in its facts.
	OfFabrics []topology.Finding
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
// problems. If nodes that wait would move, it decides again about all others, with these
// nodes in their places.
func MakePlan(o Observed, previous Previous, policy Policy) (*topology.Plan, Waiting, error) {
	w := Waiting{Moving: make(map[string]bool), Stay: make(map[string]bool)}
	s, err := readSite(&o, &previous, policy)
	if err != nil {
		return nil, w, err
	}
	s.followPartitions(&w, o.Settling)
	plan, err := s.plan(policy.Keep)
	for err == nil && (s.stayHeld(plan) || w.hold(s, o.Settling, previous.Plan, plan)) {
		plan, err = s.plan(policy.Keep)
	}
	w.Choices = s.policy.met
	return plan, w, err
}

// plan runs the stages. keep are the decisions that wait already.
func (s *site) plan(keep []Decision) (*topology.Plan, error) {
	s.policy.Keep, s.policy.met = keep, nil
	read, inFacts := readNodes(s)
	t, inTree := makeTree(s.facts, &s.prev, s.named, &s.policy)
	assigned, inLabels := assignUnits(s, read, t)
	matching, inMatching := matchPublished(s, groupNodes(s, assigned))
	blocks, small := leaveOutSmall(s, nameBlocks(s, matching.blocks))
	parts, unsited := divide(s, blocks, matching.unnamed, t)
	made, inParts, err := makeParts(s, parts, t)
	if err != nil {
		return nil, err
	}
	maps.Copy(made.leftOut, unsited)
	maps.Copy(made.leftOut, small)
	plan := &topology.Plan{ByLeaf: s.policy.ByLeaf, Topologies: made.topologies, Nodes: writeNodes(s, matching, made, t)}
	if len(t.switches) > 0 {
		plan.Topologies = append(plan.Topologies, topology.Topology{Name: topology.FabricTopology, Kind: topology.KindTree, Source: t.source, Switches: t.switches})
	}
	plan.Problems = sortProblems(s.ofSite, s.inPartitions, inFacts, inTree, inLabels, inMatching, inParts, nodeProblems(s, plan.Nodes), nameSwitchless(s, plan))
	return plan, nil
}

// assignUnits finds what each node makes a block with: its NVLink domain, or its
// leaf switch.
func assignUnits(s *site, read readings, t tree) (assignment, problems) {
	if s.policy.ByLeaf {
		return assignLeaves(s, read, t), nil
	}
	return resolveLabels(s, read)
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
