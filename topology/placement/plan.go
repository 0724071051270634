// Package placement decides where every node of a cluster belongs.
//
// [MakePlan] turns the facts of all nodes, the plan published before and a
// [Policy] into blocks (one per NVLink clique), a switch tree if network tiers
// are known, and the place of every node with its reason.
//
// The package is pure: no clock, environment, files or network. The same
// facts give the same plan whatever their order. It knows nothing of Slurm's
// file formats; package slurmconf writes those.
package placement

import (
	"maps"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement/tree"
)

// Plan says where every node belongs. The order of its blocks matters: Slurm
// aggregates consecutive blocks.
type Plan struct {
	// ByLeaf: blocks are leaf switches, not NVLink domains.
	ByLeaf bool `json:"byLeaf,omitempty"`
	// Topologies are the block topologies. There is one, unless Policy.Divide made more.
	Topologies []Topology `json:"topologies,omitempty"`
	// Default is the block topology with most GPUs, or the published default.
	Default string `json:"default,omitempty"`
	// BaseBlockSize and BlockSizes belong to the default topology. Without a block they
	// are 0 and none.
	BaseBlockSize int   `json:"baseBlockSize,omitempty"`
	BlockSizes    []int `json:"blockSizes,omitempty"`
	// Blocks includes placeholders, which have no nodes. Blocks of one topology stand
	// together.
	Blocks []Block `json:"blocks,omitempty"`
	// Switches lists every switch after its children.
	Switches []topology.Switch `json:"switches,omitempty"`
	// Placements has one entry per node, in the order of SlurmName.
	Placements []Placement        `json:"placements"`
	Problems   []topology.Problem `json:"problems,omitempty"`
	// Waiting is what was found of nodes that may have to wait, if Previous.Settling is set.
	Waiting Waiting `json:"-"`
}

// Block is one NVLink domain, or the nodes of one leaf switch (Plan.ByLeaf). A
// placeholder is the place of a block that has gone or is to come.
type Block struct {
	Name string `json:"name"`
	// Clique is zero in a placeholder that was read from a file.
	Clique topology.Clique `json:"clique,omitzero"`
	// Nodes are Slurm names, sorted; empty in a placeholder.
	Nodes []string `json:"nodes,omitempty"`
	// Topology names one of Plan.Topologies.
	Topology string `json:"topology,omitempty"`
	// Size is the most nodes that the block has had, so that a rack that lost nodes
	// counts as what it is. A file does not tell.
	Size int `json:"size,omitempty"`
}

// Placement says where a node is and why, or why it is nowhere.
type Placement struct {
	Node      string `json:"node"`
	SlurmName string `json:"slurmName"`
	Block     string `json:"block,omitempty"`
	// Switch is the leaf above the node.
	Switch string `json:"switch,omitempty"`
	// Source is nvml, label, switch or previous; empty without a block.
	Source string `json:"source,omitempty"`
	// Reason is one CamelCase word. Message explains it.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Previous is what a plan carries on: order, names and sizes of the published
// blocks and switches, as a topology file holds them.
type Previous struct {
	// ByLeaf: the blocks are leaf switches. A topology.conf does not tell.
	ByLeaf bool
	// BlocksElsewhere: the plan's blocks go into a topology of another name. The
	// published topology stays beside it as long as it is in use.
	BlocksElsewhere bool
	BaseBlockSize   int
	// Topologies are the block topologies. Without any, all blocks are in one.
	Topologies []Topology
	// Default is the default topology.
	Default  string
	Blocks   []Block
	Switches []topology.Switch
	// Reported are the Slurm names of nodes whose published devices came from
	// reports.
	Reported map[string]bool
	// InUse are the blocks and leaf switches that a node may still register with,
	// such as the ones in Slinky's annotations. slurmctld drains a node that names
	// an unknown one. They stay, even empty, if the release takes empty ones
	// (Policy.ShortBlocks).
	InUse map[string]bool
	// Settling says which nodes may not move yet. It is nil if all may.
	Settling *Settling
}

// MakePlan decides where every node belongs. previous may be nil. It fails only if
// no plan can be made: two nodes have one Slurm name, or the policy is out of
// range. All else is in the plan's placements and problems. If nodes that wait would
// move, it decides again about all others, with these nodes in their places.
func MakePlan(facts []topology.Facts, previous *Previous, policy Policy) (*Plan, error) {
	s, err := readSite(facts, previous, policy)
	if err != nil {
		return nil, err
	}
	w := Waiting{Moving: make(map[string]bool), Stay: make(map[string]bool)}
	plan, err := s.plan()
	for err == nil && w.hold(s, previous, plan) {
		plan, err = s.plan()
	}
	if err != nil {
		return nil, err
	}
	plan.Waiting = w
	return plan, nil
}

// plan runs the stages.
func (s *site) plan() (*Plan, error) {
	read, inFacts := readNodes(s)
	t, inTree := tree.Make(&tree.Site{
		Facts: s.facts, HasGPUs: func(i int) bool { return read[i].hasGPUs }, Published: s.prev.Switches, Tiers: s.policy.Tiers, InUse: s.inUse,
		EmptyLeaves: s.policy.ShortBlocks, Forget: s.policy.ForgetSwitches,
	})
	assigned, inLabels := assignUnits(s, read, t)
	matching, inMatching := matchPublished(s, groupNodes(s, assigned))
	blocks, small := leaveOutSmall(s, nameBlocks(s, matching.blocks))
	plan := &Plan{ByLeaf: s.policy.ByLeaf, Switches: t.Switches}
	parts, unsited := divide(s, blocks, t)
	all, inParts, err := plan.addParts(s, parts, t)
	if err != nil {
		return nil, err
	}
	maps.Copy(all.leftOut, small)
	maps.Copy(all.leftOut, unsited)
	plan.Placements = writePlacements(s, matching, all, t)
	plan.Problems = sortProblems(inFacts, inTree, inLabels, inMatching, inParts, placementProblems(s, plan.Placements))
	return plan, nil
}

// assignUnits finds what each node makes a block with: its NVLink domain, or its
// leaf switch.
func assignUnits(s *site, read readings, t tree.Tree) (assignment, problems) {
	if s.policy.ByLeaf {
		return assignLeaves(s, read, t), nil
	}
	return resolveLabels(s, read)
}

// The reasons of placements and problems.
const (
	ReasonPlaced           = "Placed"
	ReasonNoGPUs           = "NoGPUs"
	ReasonNoFacts          = "NoFacts"
	ReasonNoDomain         = "NoNVLinkDomain"
	ReasonFabricInProgress = "FabricInProgress"
	ReasonFabricFailed     = "FabricFailed"
	ReasonTwoCliques       = "TwoCliques"
	ReasonSmallDomain      = "SmallDomain"
	ReasonBelowBase        = "BelowBaseBlockSize"
	ReasonAboveBase        = "AboveBaseBlockSize"
	ReasonJobSizes         = "JobSizesImpossible"
	ReasonOtherTopology    = "OtherTopology"
	ReasonNoFabric         = "FabricUnknown"
	ReasonGone             = "NodeGone"
	ReasonStays            = "Stays"
	ReasonKeptGone         = "KeptForBlockSize"
	ReasonForgottenInUse   = "ForgottenBlockInUse"
	ReasonCliqueDiffers    = "CliqueLabelDiffers"
	ReasonDomainDiffers    = "DomainLabelDiffers"
	ReasonDomainConflict   = "DomainLabelConflict"
	// ReasonUnconfirmed: the GPUs of a published node name another clique or none,
	// and no second reading of this boot confirms it.
	ReasonUnconfirmed  = "DomainUnconfirmed"
	ReasonTierConflict = tree.ReasonTierConflict
	ReasonTiersMissing = tree.ReasonTiersMissing
	ReasonParentsMixed = "ParentDomainsMixed"
	ReasonAboveParent  = "AboveParentBlocks"
	ReasonNoParent     = "NoParentDomain"
	ReasonParentsUnset = "ParentBlocksUnset"
)
