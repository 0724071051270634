// Package tree makes the switch tree from the network tiers that nodes name.
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
}

// Tree is the switches of a plan.
type Tree struct {
	Switches []topology.Switch // every switch after its children
	named    [][]string        // beside Site.Facts: what the node names, the nearest first; nil without any
	leaves   []int             // beside Site.Facts: index into names, or none; nil without a tree
	names    []string
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
// Switches that share no parent stay apart: no root is invented.
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
func Make(s *Site) (Tree, []topology.Finding) {
	published := readPublished(s.Published, s.Tiers)
	named, inTiers := chooseTiers(s, published)
	if len(s.Published) == 0 && named == nil {
		return Tree{}, inTiers
	}
	known := readSwitches(named, len(s.Facts), published)
	leaves, votes := countVotes(s, known, published)
	parents := settleParents(known, votes, published)
	t := listSwitches(s, known, leaves, parents, published)
	t.named = named
	return t, slices.Concat(inTiers, nameConflicts(known, votes, parents, t.names), nameForgotten(s, t.Switches))
}

// switchKey is what nodes call a switch: one value may name a leaf and a spine.
type switchKey struct {
	tier  int
	value string
}

func (k switchKey) compare(l switchKey) int {
	return cmp.Or(cmp.Compare(k.tier, l.tier), strings.Compare(k.value, l.value))
}

// switches are the switches that nodes name, followed by the other published switches of
// the site's tiers.
type switches struct {
	keys        []switchKey
	published   []int // beside keys: index of the published switch, or none
	ofPublished []int // published switch -> index into keys, or none
	// paths are, beside Site.Facts, indices into keys, the nearest first.
	// Neighbours share theirs.
	paths [][]int
}

// readSwitches finds the switches that nodes name, and the published one of each.
func readSwitches(named [][]string, nodes int, published publishedTree) switches {
	set := switches{paths: make([][]int, nodes), ofPublished: slices.Repeat([]int{none}, len(published.switches))}
	known := map[switchKey]int{}
	var last []string
	var path []int
	for i, tiers := range named {
		if !slices.Equal(tiers, last) {
			last, path = tiers, make([]int, 0, len(tiers))
			for tier, value := range tiers {
				if value == "" {
					break
				}
				key := switchKey{tier, value}
				at, ok := known[key]
				if !ok {
					at = len(set.keys)
					known[key] = at
					set.keys = append(set.keys, key)
				}
				path = append(path, at)
			}
		}
		set.paths[i] = path
	}
	set.published = slices.Repeat([]int{none}, len(set.keys))
	if len(published.switches) > 0 {
		set.matchPublished(published)
	}
	return set
}

// matchPublished finds the published switch of the same tier and name for every switch
// that nodes name. It adds the published switches that no node names.
func (set *switches) matchPublished(published publishedTree) {
	for _, i := range set.order() {
		key := set.keys[i]
		for _, name := range topology.SwitchNames(key.tier, key.value) {
			if at, ok := published.byName[name]; ok && published.tierOf[at] == key.tier && set.ofPublished[at] == none {
				set.published[i], set.ofPublished[at] = at, i
				break
			}
		}
	}
	for at := range published.switches {
		if set.ofPublished[at] == none && published.keeps(at) {
			set.ofPublished[at] = len(set.keys)
			set.keys = append(set.keys, switchKey{published.tierOf[at], published.switches[at].Name})
			set.published = append(set.published, at)
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

// listSwitches returns the tree, leaves first, each tier by name. A switch with
// nothing below it is left out unless it is a leaf that stays.
func listSwitches(s *Site, set switches, leaves, parents []int, published publishedTree) Tree {
	nodes, children := make([][]string, len(set.keys)), make([][]string, len(set.keys))
	for i, leaf := range leaves {
		if leaf != none {
			nodes[leaf] = append(nodes[leaf], s.Facts[i].SlurmName)
		}
	}
	var kept []int // children before parents
	filled := make([]bool, len(set.keys))
	renamed := set.renamed(published)
	for _, i := range set.order() {
		if len(nodes[i]) == 0 && !filled[i] && !published.staysEmpty(s, set.published[i], renamed) {
			continue
		}
		kept = append(kept, i)
		if up := parents[i]; up != none {
			filled[up] = true
		}
	}
	t := Tree{leaves: leaves, names: nameSwitches(set, kept, published)}
	slices.SortStableFunc(kept, func(a, b int) int {
		return cmp.Or(cmp.Compare(set.keys[a].tier, set.keys[b].tier), strings.Compare(t.names[a], t.names[b]))
	})
	for _, i := range kept {
		slices.Sort(children[i])
		if up := parents[i]; up != none {
			children[up] = append(children[up], t.names[i])
		}
		t.Switches = append(t.Switches, topology.Switch{Name: t.names[i], Nodes: nodes[i], Children: children[i]})
	}
	return t
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
