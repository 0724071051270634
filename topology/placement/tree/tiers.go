package tree

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement/names"
)

// Paths are the switches that every node with GPUs names, nearest first, beside
// Site.Facts. It is nil if no node names any.
type Paths [][]string

// Of returns the switches that a node names, nearest first.
func (p Paths) Of(node int) []string {
	if p == nil {
		return nil
	}
	return p[node]
}

// sourceTally is how many nodes' switches a source names, and how many of them
// are published below the leaf that it names.
type sourceTally struct {
	topology.TierSource
	nodes, published int
}

// Choose reads the switches above every node, and settles on one source of
// labels for the whole tree, because two sources would make two trees. It takes the
// source that names the published leaves. If that decides nothing, it takes the
// first by rank that more than half of the labelled nodes carry, else the one that
// most carry. Tiers in reports go before labels.
func Choose(s *Site, hasGPUs func(node int) bool) (Paths, []topology.Problem) {
	var paths Paths
	for i, f := range s.Facts {
		tiers := f.Tiers()
		if len(tiers) == 0 || !hasGPUs(i) {
			continue
		}
		if paths == nil {
			paths = make(Paths, len(s.Facts))
		}
		paths[i] = tiers
	}
	tallies, labelled := tallySources(s, hasGPUs)
	if len(tallies) == 0 {
		return paths, nil
	}
	var found []topology.Problem
	chosen := chooseSource(tallies, labelled)
	for i, f := range s.Facts {
		if !hasGPUs(i) || f.Stays != "" || f.Gone || f.ReportsTiers() {
			continue
		}
		if len(tallies) > 1 {
			paths[i] = tiersOf(&f.Labels, chosen)
		}
		if len(paths[i]) > 0 {
			continue
		}
		message := "no label names the switches above it"
		if chosen.Name != "" {
			message = "no label of " + chosen.Name + " names the switches above it"
		}
		if len(f.Labels.Tiers) > 0 {
			message += fmt.Sprintf("; labels of %s are not used, because the tree is made from one source", f.Labels.TierSource.Name)
		}
		found = append(found, topology.Problem{Node: f.Name, Reason: ReasonTiersMissing, Message: message})
	}
	return paths, found
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

// tallySources counts the sources of the tiers of nodes that have GPUs, and the
// nodes that have any such labels.
func tallySources(s *Site, hasGPUs func(node int) bool) (tallies []sourceTally, labelled int) {
	below := func(int, []string) bool { return false }
	for range 2 {
		tallies, labelled = tallies[:0], 0
		for i, f := range s.Facts {
			l := &f.Labels
			if len(l.Tiers) == 0 || !hasGPUs(i) || f.Stays != "" || f.ReportsTiers() {
				continue
			}
			labelled++
			tallies = count(tallies, l.TierSource, below(i, l.Tiers))
			for m := range l.MoreTiers {
				tallies = count(tallies, l.MoreTiers[m].TierSource, below(i, l.MoreTiers[m].Tiers))
			}
		}
		if len(tallies) < 2 || len(s.Published) == 0 {
			break
		}
		below = publishedBelow(s) // there is a choice, and something published
	}
	return tallies, labelled
}

func count(tallies []sourceTally, s topology.TierSource, published bool) []sourceTally {
	i := slices.IndexFunc(tallies, func(t sourceTally) bool { return t.TierSource == s })
	if i < 0 {
		i = len(tallies)
		tallies = append(tallies, sourceTally{TierSource: s})
	}
	tallies[i].nodes++
	if published {
		tallies[i].published++
	}
	return tallies
}

// publishedBelow returns a function that reports whether a node is published below
// the leaf that its tiers name.
func publishedBelow(s *Site) func(node int, tiers []string) bool {
	leafOf := make(map[string]string, len(s.Facts))
	for i := range s.Published {
		for _, n := range s.Published[i].Nodes {
			leafOf[n] = s.Published[i].Name
		}
	}
	known := make(map[string]names.Candidates)
	return func(node int, tiers []string) bool {
		leaf, ok := leafOf[s.Facts[node].SlurmName]
		if !ok {
			return false
		}
		candidates, ok := known[tiers[0]]
		if !ok {
			candidates = names.Switch(0, tiers[0])
			known[tiers[0]] = candidates
		}
		return slices.Contains(candidates[:], leaf)
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
