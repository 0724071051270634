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
	if slices.ContainsFunc(tallies, func(t sourceTally) bool {
		return t.TierSource == topology.SourceCables || t.TierSource == topology.SourceLLDP
	}) {
		return nil
	}
	nodes, first := 0, none
	for i, f := range s.Facts {
		if s.HasGPUs(i) && f.Stays == "" && !f.Gone && f.Cables.Missing != "" {
			if nodes++; first == none {
				first = i
			}
		}
	}
	if nodes == 0 {
		return nil
	}
	f := s.Facts[first]
	return []topology.Finding{{Reason: ReasonCablesMissing, Message: fmt.Sprintf("cables were read, and the switches of none of %d nodes are known by them: node %s: %s", nodes, f.Name, f.Cables.Missing)}}
}

// maxDiffering is how many differences a finding names. It counts the others.
const maxDiffering = 3

// leafPair is what cables and the labels of one writer call the leaf of some nodes.
type leafPair struct {
	cables, label string
	nodes         int
	first         string // the first of the nodes
}

// String names the nodes and one of their two leaves.
func (p *leafPair) String(leaf string) string {
	if p.nodes == 1 {
		return fmt.Sprintf("%s (node %s)", leaf, p.first)
	}
	return fmt.Sprintf("%s (node %s and %d more)", leaf, p.first, p.nodes-1)
}

// nameDiffering says for each writer of labels where its labels and the cables differ: a label's leaf
// is on nodes of several leaves by cables, or nodes of one leaf have labels of several. The names of
// the two may differ, because cables have no names. named is what cables say, beside Site.Facts.
func nameDiffering(s *Site, named [][]string) []topology.Finding {
	writers := map[topology.TierSource]map[[2]string]*leafPair{}
	for i, f := range s.Facts {
		if len(named[i]) == 0 || f.ReportsTiers() || f.Stays != "" {
			continue
		}
		for of := range f.TierSources() {
			if of.TierSource == topology.SourceCables || len(of.Tiers) == 0 || of.Tiers[0] == "" {
				continue
			}
			pairs := writers[of.TierSource]
			if pairs == nil {
				pairs = map[[2]string]*leafPair{}
				writers[of.TierSource] = pairs
			}
			key := [2]string{named[i][0], of.Tiers[0]}
			if pairs[key] == nil {
				pairs[key] = &leafPair{cables: key[0], label: key[1], first: f.Name}
			}
			pairs[key].nodes++
		}
	}
	var found []topology.Finding
	for source, pairs := range writers {
		all := make([]*leafPair, 0, len(pairs))
		for _, p := range pairs {
			all = append(all, p)
		}
		differ := append(
			severalOf(all, func(p *leafPair) (string, string) { return p.label, p.cables }, "label %s is on nodes of leaf switches %s"),
			severalOf(all, func(p *leafPair) (string, string) { return p.cables, p.label }, "leaf switch %s has nodes with labels %s")...)
		if len(differ) == 0 {
			continue
		}
		more := ""
		if len(differ) > maxDiffering {
			more = fmt.Sprintf("; and %d more", len(differ)-maxDiffering)
			differ = differ[:maxDiffering]
		}
		found = append(found, topology.Finding{Reason: ReasonCablesDiffer,
			Message: fmt.Sprintf("%s and the cables differ: %s%s; the cables are followed", labelsOf(source), strings.Join(differ, "; "), more)})
	}
	slices.SortFunc(found, func(a, b topology.Finding) int { return strings.Compare(a.Message, b.Message) })
	return found
}

// severalOf says which names of one side stand beside several names of the other side.
func severalOf(pairs []*leafPair, sides func(*leafPair) (name, other string), words string) []string {
	slices.SortFunc(pairs, func(a, b *leafPair) int {
		nameA, otherA := sides(a)
		nameB, otherB := sides(b)
		return cmp.Or(strings.Compare(nameA, nameB), cmp.Compare(b.nodes, a.nodes), strings.Compare(otherA, otherB))
	})
	var out []string
	for from := 0; from < len(pairs); {
		name, _ := sides(pairs[from])
		to := from + 1
		for to < len(pairs) {
			if next, _ := sides(pairs[to]); next != name {
				break
			}
			to++
		}
		if to-from > 1 {
			var others []string
			for _, p := range pairs[from:min(to, from+maxDiffering)] {
				_, other := sides(p)
				others = append(others, p.String(other))
			}
			if to-from > maxDiffering {
				others = append(others, fmt.Sprintf("%d more", to-from-maxDiffering))
			}
			out = append(out, fmt.Sprintf(words, name, strings.Join(others, " and ")))
		}
		from = to
	}
	return out
}
