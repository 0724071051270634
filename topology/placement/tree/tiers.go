package tree

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

// chooseTiers reads the switches above every node, beside Site.Facts, the nearest
// first; nil if no node names any. It settles on one source for the whole tree, because two
// sources would make two trees: the cables if they were read, else the source that names the
// published leaves. If that decides nothing, it takes the first by rank that more than half of
// the nodes with a source have, else the one that most have. Tiers in reports go before all
// others. The source is zero if none of the known ones names the switches.
func chooseTiers(s *Site, published publishedTree) (named [][]string, chosen topology.TierSource, found []topology.Finding) {
	reported := false
	for i, f := range s.Facts {
		tiers := f.Tiers()
		if len(tiers) == 0 || !s.HasGPUs(i) {
			continue
		}
		if named == nil {
			named = make([][]string, len(s.Facts))
		}
		named[i] = tiers
		reported = reported || f.ReportsTiers()
	}
	tallies, sourced := tallySources(s)
	found = nameUncabled(s, tallies)
	if len(tallies) == 0 {
		return named, chosen, found
	}
	if len(tallies) > 1 && len(s.Published) > 0 {
		countPublished(s, tallies, published)
	}
	chosen = s.chooseSource(tallies, sourced)
	only := len(tallies) == 1 && tallies[0].TierSource == chosen
	for i, f := range s.Facts {
		if !s.HasGPUs(i) || f.Stays != "" || f.Gone || f.ReportsTiers() {
			continue
		}
		if !only {
			named[i] = f.TiersBy(chosen)
		}
		if len(named[i]) > 0 && named[i][0] != "" {
			continue
		}
		_, isPublished := published.leafOf[f.SlurmName]
		if why := whyMissing(f, chosen, named[i], isPublished); why.Reason != "" {
			found = append(found, why)
		}
	}
	for _, t := range tallies {
		if chosen == topology.SourceCables && t.TierSource != chosen {
			found = append(found, nameDiffering(s, named, t.TierSource)...)
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
	pr := topology.Finding{Subject: topology.Subject{Node: f.Name}, Reason: ReasonTiersMissing}
	switch label := "no label"; {
	case source == topology.SourceCables && f.Cables.Missing == "":
		return topology.Finding{}
	case source == topology.SourceCables || source == topology.SourceLLDP:
		pr.Reason, pr.Message = ReasonCablesMissing, cmp.Or(f.Cables.Missing, "no switch that is next to it is known by LLDP")
		if published {
			pr.Message += "; the node stays below its published switch"
		} else {
			pr.Message += "; the node is below no switch"
		}
	default:
		if source.Name != "" {
			label += " of " + source.Name
		}
		pr.Message = label + " names the switches above it"
		if len(named) > 0 {
			pr.Message = label + " names its leaf switch: it gets one below the nearest switch that labels name"
			if published {
				pr.Message = label + " names its leaf switch: it stays below the published one"
			}
		}
	}
	if len(named) == 0 && len(f.Labels.Tiers) > 0 {
		pr.Message += "; " + labelsOf(f.Labels.TierSource) + " are not used, because the tree is made from one source"
	}
	return pr
}

// labelsOf names the labels of a writer.
func labelsOf(source topology.TierSource) string {
	if source.Name == "" {
		return "labels of tierLabels"
	}
	return "labels of " + source.Name
}

// sourced reports whether the tree follows cables or labels of a node.
func (s *Site) sourced(node int) bool {
	f := s.Facts[node]
	return (len(f.Labels.Tiers) > 0 || len(f.Cables.Tiers) > 0) && s.HasGPUs(node) && f.Stays == "" && !f.ReportsTiers()
}

// tallySources counts the sources of the tiers of nodes that have GPUs, and the
// nodes that have any source.
func tallySources(s *Site) (tallies []sourceTally, sourced int) {
	for i, f := range s.Facts {
		if !s.sourced(i) {
			continue
		}
		sourced++
		for of := range f.TierSources() {
			i := slices.IndexFunc(tallies, func(t sourceTally) bool { return t.TierSource == of.TierSource })
			if i < 0 {
				i = len(tallies)
				tallies = append(tallies, sourceTally{TierSource: of.TierSource})
			}
			tallies[i].nodes++
		}
	}
	return tallies, sourced
}

// countPublished counts for each source the nodes that are published below the leaf
// that it names.
func countPublished(s *Site, tallies []sourceTally, published publishedTree) {
	for i, f := range s.Facts {
		leaf, ok := published.leafOf[f.SlurmName]
		if !ok || !s.sourced(i) {
			continue
		}
		for t := range tallies {
			tiers := f.TiersBy(tallies[t].TierSource)
			if len(tiers) == 0 || tiers[0] == "" {
				continue
			}
			candidates := topology.SwitchNames(0, tiers[0])
			if slices.Contains(candidates[:], published.switches[leaf].Name) {
				tallies[t].published++
			}
		}
	}
}

// chooseSource returns the source of the tree. Cables that nobody can read now stay the source: nodes
// then stay where they are published.
func (s *Site) chooseSource(tallies []sourceTally, sourced int) topology.TierSource {
	if s.Cables && s.Source == topology.SourceCables.Name || slices.ContainsFunc(tallies, func(t sourceTally) bool { return t.TierSource == topology.SourceCables }) {
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
