package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// The findings about cables.
const (
	ReasonCablesMissing = "CablesMissing"
	ReasonCablesDiffer  = "CablesDiffer"
)

// nameUncabled says that cables were read, and that they show the switches of no node.
func nameUncabled(s *Site, tallies []sourceTally) []topology.Finding {
	if slices.ContainsFunc(tallies, func(t sourceTally) bool { return t.Network }) {
		return nil
	}
	nodes, first := 0, 0
	for i, f := range s.Facts {
		if s.HasGPUs(i) && f.Stays == "" && !f.Gone && f.Cables.Missing != "" {
			if nodes++; nodes == 1 {
				first = i
			}
		}
	}
	if nodes == 0 {
		return nil
	}
	f := s.Facts[first]
	return []topology.Finding{{Reason: ReasonCablesMissing, Message: fmt.Sprintf("cables were read, and none of %d nodes has a switch by them; the first is node %s: %s", nodes, f.Name, f.Cables.Missing)}}
}

// groupOf are the nodes below a switch: of one name, at one tier, by cables or by labels.
type groupOf struct {
	cables bool
	tier   int
	name   string
}

// nameDiffering says how many labels of a writer differ from the cables, with one example. A label differs if
// it has a part of the nodes of a switch, and other nodes too: no tree has both. A label of leaves differs also if
// it has other nodes than one leaf switch. The names of the two may differ, because cables have no names.
// named is what cables say, beside Site.Facts.
func nameDiffering(s *Site, named [][]string, writer topology.TierSource) []topology.Finding {
	type pair struct{ label, cables groupOf }
	sizes, shared, first := map[groupOf]int{}, map[pair]int{}, map[pair]string{}
	labels := 0
	for i, f := range s.Facts {
		by := f.TiersBy(writer)
		if len(by) == 0 || len(named[i]) == 0 || f.ReportsTiers() || f.Stays != "" {
			continue
		}
		for tier, name := range named[i] {
			sizes[groupOf{true, tier, name}]++
		}
		for tier, label := range by {
			if label == "" {
				continue
			}
			g := groupOf{false, tier, label}
			if sizes[g]++; sizes[g] == 1 {
				labels++
			}
			for tier, name := range named[i] {
				p := pair{g, groupOf{true, tier, name}}
				if shared[p]++; shared[p] == 1 {
					first[p] = f.Name
				}
			}
		}
	}
	differ := map[groupOf]bool{}
	var pairs []pair
	for p, n := range shared {
		part, others := n < sizes[p.cables], n < sizes[p.label]
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
	return []topology.Finding{{Reason: ReasonCablesDiffer, Message: fmt.Sprintf("%d of %d %s differ from the cables: %s is on %d of %d nodes below switch %s (%s for example) and on %d others; the cables are followed",
		len(differ), labels, labelsOf(writer), example.label.name, n, sizes[example.cables], example.cables.name, first[example], sizes[example.label]-n)}}
}
