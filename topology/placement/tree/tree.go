// Package tree makes the switch tree from the network tiers above nodes, by cables or labels.
//
// [Make] settles on one source of tiers, builds the tree and keeps what was published.
// The package is pure.
package tree

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// The problems of tiers.
const (
	ReasonTierConflict   = "TierConflict"
	ReasonTiersMissing   = "TierLabelsMissing"
	ReasonForgottenInUse = "ForgottenSwitchInUse"
)

// Site is what a tree is made from.
type Site struct {
	Facts []*topology.Facts
	// HasGPUs reports whether the tiers of a node count.
	HasGPUs   func(node int) bool
	Published []topology.Switch
	// Tiers is how many tiers of switches the site has; 0 does not say.
	Tiers int
	// InUse reports whether a leaf has to stay even if it is empty.
	InUse func(leaf string) bool
	// EmptyLeaves: the Slurm release starts with a leaf that has no nodes. Such a leaf
	// stays until Forget names it, because Slurm may have stored the leaf's name for a
	// node.
	EmptyLeaves bool
	Forget      []string
	// RootSwitch names the switch above all others. Empty: the site does not say that there
	// is one.
	RootSwitch string
	// Source is that of the published tree (topology.Topology.Source). Cables: the site has its cables
	// read. If both say cables and none can be read now, the tree stays as it is.
	Source string
	Cables bool
	// Separate: the site says that switches without a common one above them are separate fabrics.
	Separate bool
	// KeepsApart returns the digest of the decision that keeps published roots from being
	// joined below a root, or "". It may be nil.
	KeepsApart func(root string) string
}

// Tree is the switches of a plan.
type Tree struct {
	Switches []topology.Switch // every switch after its children
	// Source is what topology.Topology.Source says.
	Source string
	named  [][]string // beside Site.Facts: what the node names, the nearest first; nil without any
	leaves []int      // beside Site.Facts: index into names, or none; nil without a tree
	names  []string
}

// none stands for no switch.
const none = -1

// Leaf returns the name of the leaf switch above a node, empty if there is none.
func (t *Tree) Leaf(node int) string {
	if t.leaves == nil || t.leaves[node] == none {
		return ""
	}
	return t.names[t.leaves[node]]
}

// NamedLeaf returns what the node itself calls its leaf switch, empty if it names none.
func (t *Tree) NamedLeaf(node int) string {
	if t.named == nil || len(t.named[node]) == 0 {
		return ""
	}
	return t.named[node][0]
}

// Make builds the switch tree from the tiers of the nodes that have GPUs.
// Switches that share no parent are joined below one root, unless they are known to be
// separate fabrics.
//
// If a node names no switch, or only the nearest of its switches, the published
// ones stand for the others. So labels that go missing move nothing, at any tier: a
// switch stays below its published parent until most of its nodes name another, and
// a parent stays as long as anything is below it. A tier goes for good when the
// nodes name other switches instead, when nothing is left below it, or when
// Site.Tiers says that the site has fewer. Silence alone never takes a tier away. A
// leaf that has lost its nodes stays below its parent, empty (Site.EmptyLeaves,
// Site.InUse). It goes if nodes now call a switch of another tier by its name or by
// the name of a switch above it.
//
// A tier that a node does not name says nothing: the next one that it names counts as the
// parent only if nothing else says the parent. A node that does not name its leaf, and that
// is not published, gets a leaf below the nearest switch that it names.
func Make(s *Site) (Tree, []topology.Finding) {
	published := readPublished(markJoined(s), s.Tiers)
	named, source, inTiers := chooseTiers(s, published)
	if len(s.Published) == 0 && named == nil {
		return Tree{}, inTiers
	}
	known := readSwitches(s, named, source.Unique, published)
	leaves, votes := countVotes(s, known, published)
	parents, loops := settleParents(known, votes, published)
	t := listSwitches(s, known, leaves, parents, published)
	t.named = named
	switch {
	case named == nil:
		t.Source = s.Source
	case source == topology.SourceCables || source == topology.SourceLLDP:
		t.Source = source.Name
	}
	joined := joinRoots(s, &t, published, source)
	return t, slices.Concat(inTiers, nameConflicts(known, votes, parents, t.names), nameLoops(s, known, loops, t.names), joined, nameEmptyRoots(t.Switches), nameForgotten(s, t.Switches))
}

// switchKey is what nodes call a switch: one value may name a leaf and a spine. The tier is
// counted from the leaf. If values are unique (TierSource.Unique), it is 1 for all switches
// above the leaves: a switch is its value, at whatever tier a node names it. If one node names
// a value twice above its leaf, the second switch has tier 2.
type switchKey struct {
	tier  int
	value string
}

// keyOf returns the key of a switch that a node names.
func keyOf(tiers []string, at int, unique bool) switchKey {
	if !unique || at == 0 {
		return switchKey{at, tiers[at]}
	}
	tier := 1
	for _, below := range tiers[1:at] {
		if below == tiers[at] {
			tier++
		}
	}
	return switchKey{tier, tiers[at]}
}

func (k switchKey) compare(l switchKey) int {
	return cmp.Or(cmp.Compare(k.tier, l.tier), strings.Compare(k.value, l.value))
}

// switches are the switches that nodes name, followed by the other published switches of
// the site's tiers.
type switches struct {
	unique      bool // values above the leaves are
	keys        []switchKey
	named       int   // how many of keys nodes name
	published   []int // beside keys: index of the published switch, or none
	ofPublished []int // published switch -> index into keys, or none
	// paths are, beside Site.Facts, the switches above the node, the nearest first.
	// Neighbours share theirs.
	paths [][]step
	// noLeaf are, beside Site.Facts, the nodes that name a switch and not their leaf.
	noLeaf []bool
}

// step is a switch on the way up from a node. It is an index into switches.keys.
type step struct {
	sw int32
	// gap: the node does not name the tier below it.
	gap bool
}

// ownLeaf is what ends the name of the leaf of nodes that name no leaf, after the name of the
// nearest switch that they name.
const ownLeaf = "-leaf"

// readSwitches finds the switches that nodes name, and the published one of each.
func readSwitches(s *Site, named [][]string, unique bool, published publishedTree) switches {
	nodes := len(s.Facts)
	set := switches{unique: unique, paths: make([][]step, nodes), noLeaf: make([]bool, nodes), ofPublished: slices.Repeat([]int{none}, len(published.switches))}
	known := map[switchKey]int32{}
	find := func(key switchKey) int32 {
		at, ok := known[key]
		if !ok {
			at = int32(len(set.keys))
			known[key] = at
			set.keys = append(set.keys, key)
		}
		return at
	}
	var last []string
	var path []step
	for i, tiers := range named {
		if !slices.Equal(tiers, last) {
			last, path = tiers, make([]step, 0, len(tiers))
			gap := false
			for tier, value := range tiers {
				switch {
				case value == "":
					gap = true
					continue
				case gap && len(path) == 0:
					path, gap = append(path, step{find(switchKey{0, value + ownLeaf}), false}), false
				}
				path, gap = append(path, step{find(keyOf(tiers, tier, unique)), gap}), false
			}
		}
		set.paths[i], set.noLeaf[i] = path, len(path) > 0 && tiers[0] == ""
	}
	set.named = len(set.keys)
	set.published = slices.Repeat([]int{none}, len(set.keys))
	if len(published.switches) > 0 {
		set.matchPublished(s, published)
	}
	return set
}

// isTier reports whether a published switch can be of the tier of a key. The published tier is
// counted in switches, so it is lower if the nodes do not name a tier between them; exactly asks
// for one that is not.
func (set *switches) isTier(key switchKey, published int, exactly bool) bool {
	switch {
	case set.unique || key.tier == 0 || published == 0:
		return (key.tier == 0) == (published == 0)
	case exactly:
		return key.tier == published
	}
	return key.tier > published
}

// matchPublished finds the published switch of every switch that nodes name: the switch of the same tier
// that nodes called so, or that has the name, or else one of a file that has the same nodes below it. It
// adds the published switches that no node names.
func (set *switches) matchPublished(s *Site, published publishedTree) {
	order := set.order()
	for _, find := range []func(switchKey) []int{published.byValueOf, published.byNameOf} {
		for _, exactly := range []bool{true, false} {
			for _, i := range order {
				if set.published[i] != none {
					continue
				}
				key := set.keys[i]
				for _, at := range find(key) {
					if set.isTier(key, published.tierOf[at], exactly) && set.ofPublished[at] == none {
						set.published[i], set.ofPublished[at] = at, i
						break
					}
				}
			}
		}
	}
	set.matchByNodes(s, published)
	for at := range published.switches {
		if set.ofPublished[at] == none && published.keeps(at) {
			set.ofPublished[at] = len(set.keys)
			set.keys = append(set.keys, switchKey{published.tierOf[at], published.switches[at].Name})
			set.published = append(set.published, at)
		}
	}
}

// matchByNodes finds the published switch of each switch that has none yet: a switch of a file, of which
// nobody knows what nodes call it, if most nodes below either are below both, at the same height. No node
// gives its name to another switch.
func (set *switches) matchByNodes(s *Site, published publishedTree) {
	type both struct{ key, published int }
	now, before, common := make([]int, len(set.keys)), make([]int, len(published.switches)), map[both]int{}
	renamed := set.renamed(published)
	for i, path := range set.paths {
		for _, p := range path {
			now[p.sw]++
		}
		leaf, ok := published.leafOf[s.Facts[i].SlurmName]
		if !ok || set.noLeaf[i] {
			continue
		}
		for height, at := range published.path(leaf) {
			if height == len(path) || path[height].gap {
				break
			}
			if sw := int(path[height].sw); set.published[sw] == none && set.ofPublished[at] == none && !renamed[at] && published.switches[at].Value == "" {
				common[both{sw, at}]++
			}
		}
	}
	for leaf, sw := range published.switches {
		for _, at := range published.path(leaf) {
			before[at] += len(sw.Nodes)
		}
	}
	for b, nodes := range common {
		if 2*nodes > max(now[b.key], before[b.published]) {
			set.published[b.key], set.ofPublished[b.published] = b.published, b.key
		}
	}
}

// order returns the indices of the switches by tier, then by what nodes call them.
func (set *switches) order() []int {
	order := make([]int, len(set.keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return set.keys[a].compare(set.keys[b]) })
	return order
}

// listSwitches returns the tree, each switch after its children: leaves first, then by how far
// a switch is above the leaves, then by name. A switch with nothing below it is left out unless
// it is a leaf that stays.
func listSwitches(s *Site, set switches, leaves, parents []int, published publishedTree) Tree {
	nodes, children := make([][]string, len(set.keys)), make([][]string, len(set.keys))
	for i, leaf := range leaves {
		if leaf != none {
			nodes[leaf] = append(nodes[leaf], s.Facts[i].SlurmName)
		}
	}
	height := slices.Repeat([]int{none}, len(set.keys)) // none: it is left out
	renamed := set.renamed(published)
	for i := range set.keys {
		if len(nodes[i]) == 0 && !published.staysEmpty(s, set.published[i], renamed) {
			continue
		}
		for h, sw := 0, i; sw != none && height[sw] < h; h, sw = h+1, parents[sw] {
			height[sw] = h
		}
	}
	kept := slices.DeleteFunc(set.order(), func(i int) bool { return height[i] == none })
	t := Tree{leaves: leaves, names: nameSwitches(set, kept, published)}
	slices.SortStableFunc(kept, func(a, b int) int {
		return cmp.Or(cmp.Compare(height[a], height[b]), strings.Compare(t.names[a], t.names[b]))
	})
	for _, i := range kept {
		slices.Sort(children[i])
		if up := parents[i]; up != none {
			children[up] = append(children[up], t.names[i])
		}
		t.Switches = append(t.Switches, topology.Switch{Name: t.names[i], Nodes: nodes[i], Children: children[i], Value: set.valueOf(i, published)})
	}
	return t
}

// valueOf returns what nodes call a switch, now or before, or "".
func (set *switches) valueOf(i int, published publishedTree) string {
	if i < set.named {
		return set.keys[i].value
	}
	return published.switches[set.published[i]].Value
}

// renamed returns the published switches whose name nodes now give to a switch of
// another tier.
func (set *switches) renamed(published publishedTree) map[int]bool {
	renamed := make(map[int]bool)
	if len(published.switches) == 0 {
		return renamed
	}
	for i, key := range set.keys {
		if at, ok := published.byName[topology.SwitchNames(key.tier, key.value)[0]]; ok && set.published[i] != at {
			renamed[at] = true
		}
	}
	return renamed
}

// nameSwitches returns the names of the switches that are kept: published names stay,
// and a new switch gets the best of its names that no other has.
func nameSwitches(set switches, kept []int, published publishedTree) []string {
	called := make([]string, len(set.keys))
	taken := make(map[string]bool, len(kept))
	for _, root := range published.rootOf {
		taken[root] = true
	}
	for _, i := range kept {
		if at := set.published[i]; at != none {
			called[i] = published.switches[at].Name
			taken[called[i]] = true
		}
	}
	for _, i := range kept {
		if called[i] != "" {
			continue
		}
		for _, name := range topology.SwitchNames(set.keys[i].tier, set.keys[i].value) {
			if called[i] = name; !taken[name] {
				break
			}
		}
		taken[called[i]] = true
	}
	return called
}
