package placement

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

// chooseTiers settles on one source of labels for the whole tree, for two would
// make two of it: the one that names the published leaves; else the first by
// rank that more than half of the nodes carry that carry any; else the one that
// most carry. What reports say of tiers goes before labels.
func (p *planner) chooseTiers() {
	tallies, labelled := p.tallySources()
	if len(tallies) == 0 {
		return
	}
	chosen := chooseSource(tallies, labelled)
	for i, f := range p.facts {
		r := &p.read[i]
		if !r.hasGPUs || f.Stays != "" || f.Gone || f.ReportsTiers() {
			continue
		}
		if len(tallies) > 1 {
			r.tiers = tiersOf(&f.Labels, chosen)
		}
		if len(r.tiers) > 0 {
			continue
		}
		message := "no label names the switches above it"
		if chosen.Name != "" {
			message = "no label of " + chosen.Name + " names the switches above it"
		}
		if len(f.Labels.Tiers) > 0 {
			message += fmt.Sprintf("; those of %s are left aside, for the tree is made from one source", f.Labels.TierSource.Name)
		}
		p.problem(f.Name, ReasonTiersMissing, message)
	}
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
// nodes that have any.
func (p *planner) tallySources() (tallies []sourceTally, labelled int) {
	below := func(int, []string) bool { return false }
	for range 2 {
		tallies, labelled = tallies[:0], 0
		for i, f := range p.facts {
			l := &f.Labels
			if len(l.Tiers) == 0 || !p.read[i].hasGPUs || f.Stays != "" || f.ReportsTiers() {
				continue
			}
			labelled++
			tallies = count(tallies, l.TierSource, below(i, l.Tiers))
			for m := range l.MoreTiers {
				tallies = count(tallies, l.MoreTiers[m].TierSource, below(i, l.MoreTiers[m].Tiers))
			}
		}
		if len(tallies) < 2 || len(p.prev.Switches) == 0 {
			break
		}
		below = p.publishedBelow() // there is a choice, and something published
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

// publishedBelow returns the function that reports whether a node is published
// below the leaf that nodes call so.
func (p *planner) publishedBelow() func(node int, tiers []string) bool {
	below := make(map[string]string, len(p.facts))
	for i := range p.prev.Switches {
		for _, n := range p.prev.Switches[i].Nodes {
			below[n] = p.prev.Switches[i].Name
		}
	}
	names := make(map[string][3]string)
	return func(node int, tiers []string) bool {
		was, ok := below[p.facts[node].SlurmName]
		if !ok {
			return false
		}
		may, ok := names[tiers[0]]
		if !ok {
			may = tierValue{0, tiers[0]}.names()
			names[tiers[0]] = may
		}
		return was == may[0] || was == may[1] || was == may[2]
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
