package placement

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// findStaying lets published nodes stay that do not follow what their facts name, although their domain has another block
// or none, by these rules:
//
//  1. the node's label alone names the domain (doubtsLabel);
//  2. its reading of the clique is not confirmed: Fabric Manager may still be at work, and one reading may be wrong;
//  3. the rest of a new clique stays with the nodes of rule 2 if the clique makes no block without them;
//  4. the block has no room for the nodes that join, and nobody has approved that.
//
// Files do not name the clique of a block, so the block that the node's domain takes counts.
func findStaying(ds []*domain, nodes []*node, policy *Policy) (found problems) {
	unconfirmed := make(map[*domain]int) // nodes of rule 2
	for _, n := range nodes {
		if n.old == nil || n.block == nil || n.block.old == n.old {
			continue
		}
		switch {
		case n.doubtsLabel():
			label := n.Labels.DomainText()
			if n.Labels.Clique.IsZero() {
				label = n.label.String()
			}
			n.stay(ReasonNoFacts, fmt.Sprintf("only its label says %s, and no report confirms it", label))
			found.add(n.Name, topology.ReasonLabelDiffers, fmt.Sprintf("its label says %s, it is published in block %s, and no report of it can be read: it stays", label, n.old.Name))
		case n.unconfirmed():
			unconfirmed[n.block]++
			n.stay(ReasonUnconfirmed, fmt.Sprintf("its GPUs report clique %s, and %s", n.clique, notConfirmed))
			found.add(n.Name, ReasonUnconfirmed, fmt.Sprintf("%s: it stays in block %s until %s", n.message, n.old.Name, untilRead))
		}
	}
	for d, count := range unconfirmed {
		if d.old == nil {
			found = append(found, d.letRestStay(count, policy)...)
		}
	}
	return append(found, holdOverfull(ds, policy)...)
}

// notConfirmed says that what a node's GPUs report is not confirmed, and what would end that.
const (
	notConfirmed = "no second reading of this boot confirms it"
	untilRead    = "its agent has read it twice in a row (an agent older than the publisher cannot report that)"
)

// letRestStay lets the confirmed nodes of a new clique stay in their blocks if the clique
// makes no block without its nodes that are not confirmed: they would be nowhere.
func (d *domain) letRestStay(unconfirmed int, policy *Policy) (found problems) {
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
