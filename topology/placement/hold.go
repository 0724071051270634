package placement

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// hold lets published nodes stay that do not follow what their facts name, although their domain has another block
// or none, by these rules:
//
//  1. the node's label alone names the domain (doubtsLabel);
//  2. its reading of the clique is not confirmed: Fabric Manager may still be at work, and one reading may be wrong;
//  3. the rest of a new clique stays with the nodes of rule 2 if the clique makes no block without them;
//  4. the block has no room for the nodes that join, and nobody has approved that.
//
// Files do not name the clique of a block, so the block that the node's domain takes counts.
func hold(ds []*domain, nodes []*node, policy *Policy) (found problems) {
	unconfirmed := make(map[*domain]int) // nodes of rule 2
	for _, n := range nodes {
		if n.old == nil || n.block == nil || n.block.old == n.old {
			continue
		}
		switch {
		case n.doubtsLabel():
			reason, label := ReasonCliqueDiffers, n.Labels.DomainText()
			if n.Labels.Clique.IsZero() {
				reason, label = ReasonDomainDiffers, n.label.String()
			}
			n.stay(ReasonNoFacts, fmt.Sprintf("only its label says %s, and no report confirms it", label))
			found.add(n.Name, reason, fmt.Sprintf("its label says %s, it is published in block %s, and no report of it can be read: it stays", label, n.old.Name))
		case n.unconfirmed():
			unconfirmed[n.block]++
			n.stay(ReasonUnconfirmed, fmt.Sprintf("its GPUs report clique %s, and %s", n.clique, notConfirmed))
			found.add(n.Name, ReasonUnconfirmed, fmt.Sprintf("%s: it stays in block %s until %s", n.message, n.old.Name, untilRead))
		}
	}
	for d, count := range unconfirmed {
		if d.old == nil {
			found = append(found, d.holdRest(count, policy)...)
		}
	}
	return append(found, holdOverfull(ds, policy)...)
}

// notConfirmed says that what a node's GPUs report is not confirmed, and what would end that.
const (
	notConfirmed = "no second reading of this boot confirms it"
	untilRead    = "its agent has read it twice in a row (an agent older than the publisher cannot report that)"
)

// holdRest lets the confirmed nodes of a new clique stay in their blocks if the clique
// makes no block without its nodes that are not confirmed: they would be nowhere.
func (d *domain) holdRest(unconfirmed int, policy *Policy) (found problems) {
	confirmed := slices.DeleteFunc(slices.Clone(d.nodes), func(n *node) bool { return n.source == fromPrevious })
	if len(confirmed) >= policy.minBlockNodes() || len(confirmed)+unconfirmed < policy.minBlockNodes() {
		return nil
	}
	for _, n := range confirmed {
		if n.old != nil {
			n.stay(ReasonUnconfirmed, fmt.Sprintf("its clique %s makes no block without %d nodes that are not confirmed yet", d.clique, unconfirmed))
			found.add(n.Name, ReasonUnconfirmed, fmt.Sprintf("%s: it stays in block %s until they are", n.message, n.old.Name))
		}
	}
	return found
}

// Settling says which nodes may not move yet. Such a node stays where it is published.
// One that is published nowhere has no place yet.
type Settling struct {
	// Unsettled are published nodes whose facts have not been the same for long enough, by
	// Slurm name.
	Unsettled map[string]bool
	// Waited are nodes of new blocks that have waited for long enough for a known switch above
	// their leaf. With Policy.ParentBlocks the nodes of a new block wait for one, because a
	// block keeps its first place, unless one of them is in Waited.
	Waited map[string]bool
}

// Waiting is what a plan found beside the places: which nodes move or may not move yet, by Slurm name, and which
// decisions the plan met.
type Waiting struct {
	// Moving are the published nodes that move, or that will move once they have settled.
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

// settle lets the nodes stay that would move before their time. It reports whether there are any: what their facts
// name is unknown to all stages then.
func (w *Waiting) settle(nodes []*node, parts []*part, t tree, settling *Settling, before *topology.Plan, policy *Policy) (stay bool) {
	unsited := findUnsited(parts, before, policy)
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

// keepFromHeld notes the nodes that a decision keeps from their rack: the rack has no topology yet, or its block has no
// room for them. Published nodes whose rack has no topology stay where they are. It reports whether there are any.
func (w *Waiting) keepFromHeld(nodes []*node) (stay bool) {
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
// place below one.
func findUnsited(parts []*part, before *topology.Plan, policy *Policy) (unsited []*domain) {
	if policy.ParentBlocks == 0 {
		return nil
	}
	known := make(map[string]bool)
	if before != nil {
		for _, b := range before.Blocks() {
			known[b.Name] = true
		}
	}
	for _, p := range parts {
		for _, d := range p.domains {
			if len(d.nodes) > 0 && !known[d.name] && d.above == "" {
				unsited = append(unsited, d)
			}
		}
	}
	return unsited
}
