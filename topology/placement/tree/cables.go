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
	return []topology.Finding{{Reason: ReasonCablesMissing, Message: fmt.Sprintf("cables were read, and none of %d nodes has a switch by them; the first is node %s: %s", nodes, f.Name, f.Cables.Missing)}}
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

// both are nodes that have the same switches by cables, and the same ones by labels of one writer.
type both struct {
	cables, label []string
	nodes         int
	first         string // the first of the nodes
}

// nameDiffering says for each writer of labels where its labels and the cables differ: a label's leaf
// is on nodes of several leaves by cables, nodes of one leaf have labels of several, or a label of a
// switch further up has a part of the nodes of a switch, and other nodes too. The names of the two may
// differ, because cables have no names. named is what cables say, beside Site.Facts.
func nameDiffering(s *Site, named [][]string) []topology.Finding {
	writers := map[topology.TierSource]map[string]*both{}
	last := map[topology.TierSource]*both{} // of the node before, which mostly has the same
	for i, f := range s.Facts {
		if len(named[i]) == 0 || f.ReportsTiers() || f.Stays != "" {
			continue
		}
		for of := range f.TierSources() {
			if of.TierSource == topology.SourceCables {
				continue
			}
			if b := last[of.TierSource]; b != nil && slices.Equal(b.cables, named[i]) && slices.Equal(b.label, of.Tiers) {
				b.nodes++
				continue
			}
			if writers[of.TierSource] == nil {
				writers[of.TierSource] = map[string]*both{}
			}
			key := fmt.Sprintf("%q %q", named[i], of.Tiers)
			b := writers[of.TierSource][key]
			if b == nil {
				b = &both{cables: named[i], label: of.Tiers, first: f.Name}
				writers[of.TierSource][key] = b
			}
			b.nodes++
			last[of.TierSource] = b
		}
	}
	var found []topology.Finding
	for source, all := range writers {
		pairs := leafPairs(all)
		differ := slices.Concat(
			severalOf(pairs, func(p *leafPair) (string, string) { return p.label, p.cables }, "label %s is on nodes of leaf switches %s"),
			severalOf(pairs, func(p *leafPair) (string, string) { return p.cables, p.label }, "leaf switch %s has nodes with labels %s"),
			crossing(all))
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

// leafPairs counts the nodes by their two leaves.
func leafPairs(all map[string]*both) []*leafPair {
	known := map[[2]string]*leafPair{}
	var pairs []*leafPair
	for _, b := range all {
		if len(b.label) == 0 || b.label[0] == "" {
			continue
		}
		key := [2]string{b.cables[0], b.label[0]}
		p := known[key]
		if p == nil {
			p = &leafPair{cables: key[0], label: key[1], first: b.first}
			known[key], pairs = p, append(pairs, p)
		}
		p.nodes, p.first = p.nodes+b.nodes, min(p.first, b.first)
	}
	return pairs
}

// crossing says which labels above the leaf have a part of the nodes of a switch, and others too: no tree
// has both.
func crossing(all map[string]*both) []string {
	type at struct {
		tier int
		name string
	}
	labels, cables, shared := map[at]int{}, map[at]int{}, map[[2]at]int{}
	for _, b := range all {
		for c, name := range b.cables {
			cables[at{c, name}] += b.nodes
		}
		for t, value := range b.label {
			if t == 0 || value == "" {
				continue
			}
			labels[at{t, value}] += b.nodes
			for c, name := range b.cables {
				if name != "" {
					shared[[2]at{{t, value}, {c, name}}] += b.nodes
				}
			}
		}
	}
	var out []string
	for pair, n := range shared {
		if label, sw := labels[pair[0]], cables[pair[1]]; n < label && n < sw {
			out = append(out, fmt.Sprintf("label %s is on %d of %d nodes below switch %s and on %d others", pair[0].name, n, sw, pair[1].name, label-n))
		}
	}
	slices.Sort(out)
	return out
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
