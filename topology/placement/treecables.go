package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// nameUncabled says that cables were read, and that they show the switches of no node.
func nameUncabled(nodes []*node, tallies []sourceTally) (found problems) {
	if slices.ContainsFunc(tallies, func(t sourceTally) bool { return t.Network }) {
		return nil
	}
	var uncabled []*node
	for _, n := range nodes {
		if n.Computes() && n.Stays == "" && !n.Gone && n.Cables.Missing != "" {
			uncabled = append(uncabled, n)
		}
	}
	if len(uncabled) > 0 {
		found.add("", ReasonCablesMissing, fmt.Sprintf("cables were read, and none of %d nodes has a switch by them; the first is node %s: %s", len(uncabled), uncabled[0].Name, uncabled[0].Cables.Missing))
	}
	return found
}

// nameDiffering says how many labels of a writer differ from the cables, with one example. A label differs if
// it has a part of the nodes of a switch, and other nodes too: no tree has both. A label of leaves differs also if
// it has other nodes than one leaf switch. The names of the two may differ, because cables have no names.
// The tiers of the nodes are what cables say.
func nameDiffering(nodes []*node, writer topology.TierSource) (found problems) {
	type pair struct{ label, cables switchKey }
	labelled, cabled, shared, first := map[switchKey]int{}, map[switchKey]int{}, map[pair]int{}, map[pair]string{}
	for _, n := range nodes {
		by := n.TiersBy(writer)
		if len(by) == 0 || len(n.tiers) == 0 || n.ReportsTiers() || n.Stays != "" {
			continue
		}
		for tier, name := range n.tiers {
			cabled[switchKey{tier, name}]++
		}
		for tier, label := range by {
			if label == "" {
				continue
			}
			labelled[switchKey{tier, label}]++
			for above, name := range n.tiers {
				p := pair{switchKey{tier, label}, switchKey{above, name}}
				if shared[p]++; shared[p] == 1 {
					first[p] = n.Name
				}
			}
		}
	}
	differ := map[switchKey]bool{}
	var pairs []pair
	for p, n := range shared {
		part, others := n < cabled[p.cables], n < labelled[p.label]
		if leaves := p.label.tier == 0 && p.cables.tier == 0; part && others || leaves && (part || others) {
			differ[p.label], pairs = true, append(pairs, p)
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	example := slices.MinFunc(pairs, func(a, b pair) int { // the fewest nodes are the odd ones
		return cmp.Or(cmp.Compare(shared[a], shared[b]), strings.Compare(first[a], first[b]), cmp.Compare(a.cables.tier, b.cables.tier), cmp.Compare(a.label.tier, b.label.tier))
	})
	n := shared[example]
	found.add("", ReasonCablesDiffer, fmt.Sprintf("%d of %d %s differ from the cables: %s is on %d of %d nodes below switch %s (%s for example) and on %d others; the cables are followed",
		len(differ), len(labelled), labelsOf(writer), example.label.value, n, cabled[example.cables], example.cables.value, first[example], labelled[example.label]-n))
	return found
}
