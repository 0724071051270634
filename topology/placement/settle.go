package placement

import (
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Settling says which nodes may not move yet. Such a node stays where it is published.
// One that is published nowhere has no place yet.
type Settling struct {
	// Unsettled are published nodes whose facts have not been the same for long enough, by
	// Slurm name.
	Unsettled map[string]bool
	// Waited are nodes of new blocks that have waited for long enough for a known switch above
	// their leaf. With Policy.ParentBlocks the nodes of a new block wait for one, because a
	// block keeps its first position, unless one of them is in Waited.
	Waited map[string]bool
}

// Waiting is what a plan found beside the places: which nodes move or may not move yet, by Slurm name, and which
// decisions the plan met.
type Waiting struct {
	// Moving are the published nodes that move, or that will move once they are settled.
	Moving map[string]bool
	// Unsited are the nodes of each new block without a known switch above its leaf, with Policy.ParentBlocks.
	Unsited [][]string
	// Stay are the nodes that may not move yet.
	Stay map[string]bool
	// Follows are the changes of NVLink partitions that the plan follows.
	Follows []Repartition
	// Settled are the changes of NVLink partitions that have lasted for long enough, also the changes in Follows.
	Settled []*Repartition
	// Choices are the decisions that the plan met.
	Choices []Choice
	// Held are the nodes that would be in another place, or in one at all, if no decision waited.
	Held map[string]bool
	// Divides: NVLink partitions changed while published nodes ran. The plan may not follow that yet.
	Divides bool
}

// letUnsettledStay lets the nodes stay that would move before their time. It reports whether there are any: what their facts
// name is unknown to all stages then.
func (w *Waiting) letUnsettledStay(nodes []*node, parts []*part, t tree, settling *Settling, before *topology.Plan, policy *Policy) (stay bool) {
	unsited := findUnsited(parts, policy)
	for _, d := range unsited {
		w.Unsited = append(w.Unsited, slurmNames(d.nodes))
	}
	if before == nil || settling == nil {
		return false
	}
	known := before.BaseBlockSize() > 0 && len(topology.ParentsOf(topology.NamedSwitches(t.switches))) > 0
	for _, d := range unsited {
		if !known || slices.ContainsFunc(d.nodes, func(n *node) bool { return settling.Waited[n.SlurmName] }) {
			continue
		}
		for _, n := range d.nodes {
			stay = w.letStay(n, "its block is new, and no switch above its leaf is known yet") || stay
		}
	}
	moves := movesFrom(before, before.Places(), t.switches)
	for _, n := range nodes {
		to := topology.Place{Leaf: n.leaf}
		if n.block != nil {
			to.Block = n.block.name
		}
		if moves(n.SlurmName, to) || n.old != nil && n.reason == BlockOverfull {
			w.Moving[n.SlurmName] = true
			if settling.Unsettled[n.SlurmName] {
				stay = w.letStay(n, "its facts name another place, but not for long enough yet") || stay
			}
		}
	}
	return stay
}

// noteHeld notes the nodes that a decision keeps from their rack: the rack has no topology yet, or its block has no
// room for them. Published nodes whose rack has no topology stay where they are. It reports whether there are any.
func (w *Waiting) noteHeld(nodes []*node) (stay bool) {
	for _, n := range nodes {
		if n.reason == ReasonHeld || n.reason == BlockOverfull {
			w.Held[n.SlurmName] = true
			stay = n.reason == ReasonHeld && n.old != nil && n.silence(n.message) || stay
		}
	}
	return stay
}

// letStay lets a node stay that may not move yet. It reports whether the node's facts counted before.
func (w *Waiting) letStay(n *node, why string) bool {
	if !n.silence(why) {
		return false
	}
	w.Stay[n.SlurmName] = true
	return true
}

// silence lets a node stay where it is published, in the tree too: its facts count no more. It reports whether
// they counted before. The facts of others are not changed.
func (n *node) silence(why string) bool {
	if n.Gone || n.Stays != "" {
		return false
	}
	f := *n.Facts
	f.Stays, n.Facts = why, &f
	return true
}

// findUnsited returns the new blocks without a known switch above their leaf, if Policy.ParentBlocks gives each block a
// position below one.
func findUnsited(parts []*part, policy *Policy) (unsited []*domain) {
	if policy.ParentBlocks == 0 {
		return nil
	}
	for _, p := range parts {
		for _, d := range p.domains {
			if len(d.nodes) > 0 && d.old == nil && d.above == "" {
				unsited = append(unsited, d)
			}
		}
	}
	return unsited
}

// Moved returns the Slurm names of the published nodes that a plan puts elsewhere or nowhere, sorted. In a tree the
// whole path from leaf to root counts. A new switch above the old root moves nothing, nor does a root that no label
// named and that goes.
func Moved(old, plan *topology.Plan) (nodes []string) {
	oldPlaces, places := old.Places(), plan.Places()
	moves := movesFrom(old, oldPlaces, plan.Switches())
	for n := range oldPlaces {
		if moves(n, places[n]) {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// movesFrom returns what reports whether a place, below the switches, is another one than that of a published node.
func movesFrom(old *topology.Plan, places map[string]topology.Place, switches []topology.Switch) func(node string, to topology.Place) bool {
	oldAbove, above := topology.PathsAbove(topology.NamedSwitches(old.Switches())), topology.PathsAbove(switches)
	return func(node string, to topology.Place) bool {
		from := places[node]
		below := from.Leaf == "" || from.Leaf == to.Leaf && strings.HasSuffix(above[to.Leaf], oldAbove[from.Leaf])
		return from.Block != "" && to.Block != from.Block || !below
	}
}
