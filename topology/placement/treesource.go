package placement

import (
	"cmp"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// sourceTally is how many nodes' switches a source names, and how many of them
// are published below the leaf that it names.
type sourceTally struct {
	topology.TierSource
	nodes, published int
}

// chooseTiers finds what every node calls the switches above it. It chooses one source for the whole
// tree, because two sources would make two trees: the cables if they were read, else the source that names the
// published leaves. If that decides nothing, it takes the first by rank that more than half of
// the nodes with a source have, else the one that most have. Tiers in reports go before all
// others. The source is zero if none of the known ones names the switches.
func chooseTiers(nodes []*node, published string, old *oldTree) (chosen topology.TierSource, found problems) {
	tallies, sourced := tallySources(nodes, old)
	found = nameUncabled(nodes, tallies)
	if len(tallies) > 0 {
		chosen = chooseSource(tallies, sourced, old.policy.Cables && published == topology.SourceCables.Name)
	}
	reported := false
	for _, n := range nodes {
		switch {
		case !n.Computes() || n.Stays != "":
			continue
		case n.ReportsTiers():
			n.tiers, reported = n.Report.Tiers, true
			continue
		}
		n.tiers = n.TiersBy(chosen)
		if len(tallies) == 0 || n.Gone || n.namedLeaf() != "" {
			continue
		}
		if why := whyMissing(n, chosen, old.pathOf(n) != nil); why.Reason != "" {
			found = append(found, why)
		}
	}
	for _, t := range tallies {
		if chosen.Network && chosen.Fabrics && t.TierSource != chosen {
			found = append(found, nameDiffering(nodes, t.TierSource)...)
		}
	}
	if reported {
		chosen = topology.TierSource{}
	}
	return chosen, found
}

// whyMissing says why the source of the tree does not name a node's leaf switch, and what that means. The finding is empty if a finding of the site says why.
func whyMissing(n *node, source topology.TierSource, published bool) topology.Finding {
	reason, message := ReasonNoSwitch, "no label"
	if source.Name != "" {
		message += " of " + source.Name
	}
	switch {
	case source.Network && source.Fabrics && n.Cables.Missing == "":
		return topology.Finding{}
	case source.Network:
		reason, message = ReasonCablesMissing, cmp.Or(n.Cables.Missing, "no switch that is next to it is known by LLDP")
		if published {
			message += "; the node stays below its published switch"
		} else {
			message += "; the node is below no switch"
		}
	case len(n.tiers) == 0:
		message += " names the switches above it"
	case published:
		message += " names its leaf switch: it stays below the published one"
	default:
		message += " names its leaf switch: it gets one below the nearest switch that labels name"
	}
	if len(n.tiers) == 0 && len(n.Labels.Tiers) > 0 {
		message += "; " + labelsOf(n.Labels.TierSource) + " are not used, because the tree is made from one source"
	}
	return topology.Finding{Subject: topology.Subject{Node: n.Name}, Reason: reason, Message: message}
}

// labelsOf names the labels of a writer.
func labelsOf(source topology.TierSource) string {
	if source.Name == "" {
		return "labels of tierLabels"
	}
	return "labels of " + source.Name
}

// tallySources counts the sources of the tiers of nodes that have GPUs, and the
// nodes that have any source.
func tallySources(nodes []*node, old *oldTree) (tallies []sourceTally, sourced int) {
	for _, n := range nodes {
		if !n.Computes() || n.Stays != "" || n.ReportsTiers() {
			continue
		}
		leaf, any := old.leafOf[n.SlurmName], 0
		for of := range n.TierSources() {
			at := indexOrAdd(&tallies, func(t sourceTally) bool { return t.TierSource == of.TierSource }, sourceTally{TierSource: of.TierSource})
			tallies[at].nodes++
			if leaf != nil && leaf.isNamed(of.Tiers[0]) {
				tallies[at].published++
			}
			any = 1
		}
		sourced += any
	}
	return tallies, sourced
}

// isNamed reports whether a leaf has one of the names that nodes give to it.
func (leaf *oldSwitch) isNamed(value string) bool {
	switch value {
	case "":
		return false
	case leaf.Name:
		return true
	}
	names := topology.SwitchNames(0, value)
	return slices.Contains(names[:], leaf.Name)
}

// chooseSource returns the source of the tree. cabled: the published tree is by cables, and the site has them read.
// Then they stay the source if nobody can read them now, and nodes stay where they are published.
func chooseSource(tallies []sourceTally, sourced int, cabled bool) topology.TierSource {
	if cabled || slices.ContainsFunc(tallies, func(t sourceTally) bool { return t.Network && t.Fabrics }) {
		return topology.SourceCables
	}
	return slices.MinFunc(tallies, func(a, b sourceTally) int {
		if n := cmp.Compare(b.published, a.published); n != 0 {
			return n
		}
		mostA, mostB := 2*a.nodes > sourced, 2*b.nodes > sourced
		if n := cmp.Compare(b.nodes, a.nodes); n != 0 && (!mostA || !mostB) {
			return n
		}
		return cmp.Compare(a.Rank, b.Rank)
	}).TierSource
}
