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

// chooseTiers reads the switches above every node, beside the facts, the nearest
// first. It settles on one source for the whole tree, because two
// sources would make two trees: the cables if they were read, else the source that names the
// published leaves. If that decides nothing, it takes the first by rank that more than half of
// the nodes with a source have, else the one that most have. Tiers in reports go before all
// others. The source is zero if none of the known ones names the switches.
func chooseTiers(facts []*topology.Facts, published string, old *oldTree) (named [][]string, chosen topology.TierSource, found problems) {
	tallies, sourced := tallySources(facts, old)
	found = nameUncabled(facts, tallies)
	if len(tallies) > 0 {
		chosen = chooseSource(tallies, sourced, old.policy.Cables && published == topology.SourceCables.Name)
	}
	named = make([][]string, len(facts))
	reported := false
	for i, f := range facts {
		switch {
		case !f.Computes() || f.Stays != "":
			continue
		case f.ReportsTiers():
			named[i], reported = f.Report.Tiers, true
			continue
		}
		named[i] = f.TiersBy(chosen)
		if len(tallies) == 0 || f.Gone || len(named[i]) > 0 && named[i][0] != "" {
			continue
		}
		if why := whyMissing(f, chosen, named[i], old.pathOf(f) != nil); why.Reason != "" {
			found = append(found, why)
		}
	}
	for _, t := range tallies {
		if chosen.Network && chosen.Fabrics && t.TierSource != chosen {
			found = append(found, nameDiffering(facts, named, t.TierSource)...)
		}
	}
	if reported {
		chosen = topology.TierSource{}
	}
	return named, chosen, found
}

// whyMissing says of a node why the source of the tree does not name its leaf switch, and what that
// means. named is what the source names. The finding is empty if a finding of the site says why.
func whyMissing(f *topology.Facts, source topology.TierSource, named []string, published bool) topology.Finding {
	reason, message := ReasonTiersMissing, "no label"
	if source.Name != "" {
		message += " of " + source.Name
	}
	switch {
	case source.Network && source.Fabrics && f.Cables.Missing == "":
		return topology.Finding{}
	case source.Network:
		reason, message = ReasonCablesMissing, cmp.Or(f.Cables.Missing, "no switch that is next to it is known by LLDP")
		if published {
			message += "; the node stays below its published switch"
		} else {
			message += "; the node is below no switch"
		}
	case len(named) == 0:
		message += " names the switches above it"
	case published:
		message += " names its leaf switch: it stays below the published one"
	default:
		message += " names its leaf switch: it gets one below the nearest switch that labels name"
	}
	if len(named) == 0 && len(f.Labels.Tiers) > 0 {
		message += "; " + labelsOf(f.Labels.TierSource) + " are not used, because the tree is made from one source"
	}
	return topology.Finding{Subject: topology.Subject{Node: f.Name}, Reason: reason, Message: message}
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
func tallySources(facts []*topology.Facts, old *oldTree) (tallies []sourceTally, sourced int) {
	for _, f := range facts {
		if !f.Computes() || f.Stays != "" || f.ReportsTiers() {
			continue
		}
		leaf, any := old.leafOf[f.SlurmName], 0
		for of := range f.TierSources() {
			at := slices.IndexFunc(tallies, func(t sourceTally) bool { return t.TierSource == of.TierSource })
			if at < 0 {
				at = len(tallies)
				tallies = append(tallies, sourceTally{TierSource: of.TierSource})
			}
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
