// Package placement decides where every node of a cluster belongs.
//
// [MakePlan] turns what is [Observed] of all nodes now, what was published ([Previous]) and
// what the site wants ([Policy]) into a plan: blocks (one per NVLink clique), a switch tree
// if network tiers are known, and the place of every node with its reason. The stages are
// calls on the nodes and domains of one plan:
//
//   - readPublished and readNodes: the published blocks, and each node with its facts and its published block.
//   - makeTree: the switches, and the leaf above each node.
//   - findUnits: what each node makes a block with, its clique, a value of a label or its leaf.
//   - domains: the nodes of each unit.
//   - match: which published block each domain takes.
//   - findStaying: which nodes stay in their published block, whatever they name.
//   - carryOn: the blocks of the plan, with their nodes, names and sizes.
//   - divide: the block topology of each block.
//   - Waiting.letUnsettledStay: which nodes would move before their time.
//   - keepKind: whether a topology of the file changes between switches and blocks.
//   - arrange: positions and sizes of the blocks.
//   - explain: the reason of each node.
//
// Words: the place of a node is its block and its leaf. The position of a block is its number in its topology, from 1. The
// unit of a node is what the nodes of its block have in common. A node stays in its published block, whatever its facts
// name. A block, a switch or a position of the last plan is kept. A decision waits until people approve it, and the nodes
// that it would move are held. A node is settled when its facts have been the same for long enough.
//
// The package is pure: no clock, environment, files or network. It changes nothing that it
// is given. The same facts give the same plan whatever their order. It knows nothing of
// Slurm's file formats; package slurmconf writes those.
package placement

import (
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
// problems.
//
// findPlaces says where each node would go. If nodes may not move yet, it says that once more with these nodes in
// their places, because the name that such a node gives takes no block and no switch from others. A further node that
// would move only because these nodes stay moves at once: no site of the tests has one. The same is done for nodes that
// moved to a rack that waits for a decision, until there is none. Sizes and order are chosen once: they move no node.
func MakePlan(o Observed, previous Previous, policy Policy) (*topology.Plan, Waiting, error) {
	w := Waiting{Moving: make(map[string]bool), Stay: make(map[string]bool), Held: make(map[string]bool)}
	if err := policy.validate(); err != nil {
		return nil, w, err
	}
	old := readPublished(&previous, o.InUse, &policy)
	nodes, unnamed, err := readNodes(&o, old)
	if err != nil {
		return nil, w, err
	}
	inPartitions := w.followPartitions(nodes, old, o.Settling, &policy)
	before := policy
	parts, t, found := findPlaces(&o, nodes, unnamed, old, &policy)
	if w.letUnsettledStay(nodes, parts, t, o.Settling, previous.Plan, &policy) {
		policy = before // all choices may be other ones now
		parts, t, found = findPlaces(&o, nodes, unnamed, old, &policy)
	}
	for w.noteHeld(nodes) { // nodes stay because a change of topologies waits, so that is no question any more
		before.met = slices.DeleteFunc(slices.Clone(policy.met), func(c Choice) bool { return c.Kind != TopologiesChange && c.Kind != Repartitioned })
		policy = before
		parts, t, found = findPlaces(&o, nodes, unnamed, old, &policy)
	}
	keepKind(parts, t, &o, previous.Plan, &policy)
	topologies, inSizes, err := arrange(parts, old, &policy)
	w.Choices = policy.met
	if err != nil {
		return nil, w, err
	}
	plan := &topology.Plan{ByLeaf: policy.ByLeaf, Topologies: topologies}
	if len(t.switches) > 0 {
		plan.Topologies = append(plan.Topologies, topology.Topology{Name: topology.FabricTopology, Kind: topology.KindTree, Source: t.source, Switches: t.switches})
	}
	var inPlaces problems
	plan.Nodes, inPlaces = explain(nodes, len(topologies) > 0)
	plan.Problems = slices.Concat(o.OfFabrics, topology.MixedCliques(o.Facts), inPartitions, found, inSizes, inPlaces, nameSwitchless(nodes, plan, &policy))
	slices.SortFunc(plan.Problems, topology.CompareFindings)
	plan.Problems = slices.Compact(plan.Problems) // what is wrong with a node of several names is said once
	return plan, w, nil
}

// findPlaces finds the switches and the blocks of the plan, and where each node goes. What an earlier call found of nodes
// and published blocks does not count.
func findPlaces(o *Observed, nodes, unnamed []*node, old *published, policy *Policy) ([]*part, tree, problems) {
	for _, n := range slices.Concat(nodes, unnamed) {
		n.placing = placing{}
	}
	for _, b := range old.blocks {
		b.matching = matching{}
	}
	t, inTree := makeTree(nodes, old, o.InUse, policy)
	aliases, inUnits := findUnits(nodes, unnamed, policy)
	ds, unnamedSizes := domains(nodes, unnamed, aliases, policy)
	match(ds, nodes, old, policy)
	inStaying := findStaying(ds, nodes, policy)
	ds = carryOn(ds, nodes, old, policy)
	parts, inParts := divide(ds, unnamedSizes, t, old, policy)
	return parts, t, slices.Concat(inTree, inUnits, inStaying, inParts)
}

// The reasons of placements and problems.
const (
	ReasonPlaced          = "Placed"
	ReasonNoGPUs          = "NoGPUs"
	ReasonNoFacts         = "NoFacts"
	ReasonNoDomain        = "NoNVLinkDomain"
	ReasonSmallDomain     = "SmallDomain"
	ReasonJobSizes        = "JobSizesImpossible"
	ReasonClassesUnset    = "SizeClassesUnset"
	ReasonOtherTopology   = "OtherTopology"
	ReasonGone            = "NodeGone"
	ReasonStays           = "Stays"
	ReasonForgottenInUse  = "ForgottenInUse"
	ReasonLabelConflict   = "LabelConflict"
	ReasonUnconfirmed     = "DomainUnconfirmed"
	ReasonNoSwitch        = "NoSwitch"
	ReasonCablesMissing   = "CablesMissing"
	ReasonCablesDiffer    = "CablesDiffer"
	ReasonRootAssumed     = "RootAssumed"
	ReasonLeavesApart     = topology.ReasonLeavesApart
	ReasonParentBlocks    = "ParentBlocks"
	ReasonTopologiesApart = "TopologiesApart"
	ReasonSwitchesUnknown = "SwitchesUnknown"
)
