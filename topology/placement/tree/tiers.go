package tree

import (
	"cmp"
	"fmt"
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
// first; nil if no node names any. It settles on one source of labels for the whole
// tree, because two sources would make two trees: the source that names the published
// leaves. If that decides nothing, it takes the first by rank that more than half of the
// labelled nodes carry, else the one that most carry. Tiers in reports go before labels. The
// source is zero if none of the known writers names the switches.
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
	tallies, labelled := tallySources(s)
	if len(tallies) == 0 {
		return named, chosen, nil
	}
	if len(tallies) > 1 && len(s.Published) > 0 {
		countPublished(s, tallies, published)
	}
	chosen = chooseSource(tallies, labelled)
	label := "no label"
	if chosen.Name != "" {
		label += " of " + chosen.Name
	}
	for i, f := range s.Facts {
		if !s.HasGPUs(i) || f.Stays != "" || f.Gone || f.ReportsTiers() {
			continue
		}
		if len(tallies) > 1 {
			named[i] = tiersOf(&f.Labels, chosen)
		}
		if len(named[i]) > 0 && named[i][0] != "" {
			continue
		}
		message := label + " names the switches above it"
		if len(named[i]) > 0 {
			message = label + " names its leaf switch: it gets one below the nearest switch that labels name"
			if _, isPublished := published.leafOf[f.SlurmName]; isPublished {
				message = label + " names its leaf switch: it stays below the published one"
			}
		}
		if len(named[i]) == 0 && len(f.Labels.Tiers) > 0 {
			message += fmt.Sprintf("; labels of %s are not used, because the tree is made from one source", f.Labels.TierSource.Name)
		}
		found = append(found, topology.Finding{Subject: topology.Subject{Node: f.Name}, Reason: ReasonTiersMissing, Message: message})
	}
	if reported {
		chosen = topology.TierSource{}
	}
	return named, chosen, found
}

func tiersOf(l *topology.Labels, s topology.TierSource) []string {
	if l.TierSource == s {
		return l.Tiers
	}
	for i := range l.MoreTiers {
		if l.MoreTiers[i].TierSource == s {
			return l.MoreTiers[i].Tiers
		}
	}
	return nil
}

// labelled reports whether the tree follows the labels of a node.
func (s *Site) labelled(node int) bool {
	f := s.Facts[node]
	return len(f.Labels.Tiers) > 0 && s.HasGPUs(node) && f.Stays == "" && !f.ReportsTiers()
}

// tallySources counts the sources of the tiers of nodes that have GPUs, and the
// nodes that have any such labels.
func tallySources(s *Site) (tallies []sourceTally, labelled int) {
	count := func(source topology.TierSource) {
		i := slices.IndexFunc(tallies, func(t sourceTally) bool { return t.TierSource == source })
		if i < 0 {
			i = len(tallies)
			tallies = append(tallies, sourceTally{TierSource: source})
		}
		tallies[i].nodes++
	}
	for i, f := range s.Facts {
		if !s.labelled(i) {
			continue
		}
		labelled++
		count(f.Labels.TierSource)
		for m := range f.Labels.MoreTiers {
			count(f.Labels.MoreTiers[m].TierSource)
		}
	}
	return tallies, labelled
}

// countPublished counts for each source the nodes that are published below the leaf
// that it names.
func countPublished(s *Site, tallies []sourceTally, published publishedTree) {
	for i, f := range s.Facts {
		leaf, ok := published.leafOf[f.SlurmName]
		if !ok || !s.labelled(i) {
			continue
		}
		for t := range tallies {
			tiers := tiersOf(&f.Labels, tallies[t].TierSource)
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

// chooseSource returns the source of the tree.
func chooseSource(tallies []sourceTally, labelled int) topology.TierSource {
	return slices.MinFunc(tallies, func(a, b sourceTally) int {
		if n := cmp.Compare(b.published, a.published); n != 0 {
			return n
		}
		mostA, mostB := 2*a.nodes > labelled, 2*b.nodes > labelled
		if n := cmp.Compare(b.nodes, a.nodes); n != 0 && (!mostA || !mostB) {
			return n
		}
		return cmp.Compare(a.Rank, b.Rank)
	}).TierSource
}
