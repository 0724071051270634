package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// tierPaths are the switches that every node with GPUs names, nearest first, beside
// the site's facts. It is nil if no node names any.
type tierPaths [][]string

// of returns the switches that a node names, nearest first.
func (p tierPaths) of(node int) []string {
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

// chooseTiers reads the switches above every node, and settles on one source of
// labels for the whole tree, because two sources would make two trees. It takes the
// source that names the published leaves. If that decides nothing, it takes the
// first by rank that more than half of the labelled nodes carry, else the one that
// most carry. Tiers in reports go before labels.
func chooseTiers(s *site, read readings) (tierPaths, problems) {
	var paths tierPaths
	for i, f := range s.facts {
		tiers := f.Tiers()
		if len(tiers) == 0 || !read[i].hasGPUs {
			continue
		}
		if paths == nil {
			paths = make(tierPaths, len(s.facts))
		}
		paths[i] = tiers
	}
	tallies, labelled := tallySources(s, read)
	if len(tallies) == 0 {
		return paths, nil
	}
	var found problems
	chosen := chooseSource(tallies, labelled)
	for i, f := range s.facts {
		if !read[i].hasGPUs || f.Stays != "" || f.Gone || f.ReportsTiers() {
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
			message += fmt.Sprintf("; those of %s are left aside, for the tree is made from one source", f.Labels.TierSource.Name)
		}
		found.add(f.Name, ReasonTiersMissing, message)
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
func tallySources(s *site, read readings) (tallies []sourceTally, labelled int) {
	below := func(int, []string) bool { return false }
	for range 2 {
		tallies, labelled = tallies[:0], 0
		for i, f := range s.facts {
			l := &f.Labels
			if len(l.Tiers) == 0 || !read[i].hasGPUs || f.Stays != "" || f.ReportsTiers() {
				continue
			}
			labelled++
			tallies = count(tallies, l.TierSource, below(i, l.Tiers))
			for m := range l.MoreTiers {
				tallies = count(tallies, l.MoreTiers[m].TierSource, below(i, l.MoreTiers[m].Tiers))
			}
		}
		if len(tallies) < 2 || len(s.prev.Switches) == 0 {
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
func publishedBelow(s *site) func(node int, tiers []string) bool {
	leafOf := make(map[string]string, len(s.facts))
	for i := range s.prev.Switches {
		for _, n := range s.prev.Switches[i].Nodes {
			leafOf[n] = s.prev.Switches[i].Name
		}
	}
	names := make(map[string]candidateNames)
	return func(node int, tiers []string) bool {
		leaf, ok := leafOf[s.facts[node].SlurmName]
		if !ok {
			return false
		}
		candidates, ok := names[tiers[0]]
		if !ok {
			candidates = switchKey{0, tiers[0]}.names()
			names[tiers[0]] = candidates
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
