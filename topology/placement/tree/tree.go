package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement/names"
)

// switchKey is what nodes call a switch: one value may name a leaf and a spine.
type switchKey struct {
	tier  int
	value string
}

func (k switchKey) compare(l switchKey) int {
	return cmp.Or(cmp.Compare(k.tier, l.tier), strings.Compare(k.value, l.value))
}

// Switch is one switch of the tree.
type Switch struct {
	Name string `json:"name"`
	// Nodes are the Slurm names below a leaf, Children the switches below any
	// other; sorted, and never both.
	Nodes    []string `json:"nodes,omitempty"`
	Children []string `json:"children,omitempty"`
}

// Tree is the switches of a plan.
type Tree struct {
	Switches []Switch // every switch after its children
	leafOf   []int    // beside Site.Facts: index into names, or none; nil without a tree
	names    []string
}

// Leaf returns the name of the leaf switch above a node, empty if there is none.
func (t *Tree) Leaf(node int) string {
	if t.leafOf == nil || t.leafOf[node] == none {
		return ""
	}
	return t.names[t.leafOf[node]]
}

// Site is what a tree is made from.
type Site struct {
	Facts     []*topology.Facts
	Published []Switch
	// Tiers is how many tiers of switches the site has; 0 does not say.
	Tiers int
	// InUse reports whether a leaf has to stay even if it is empty.
	InUse func(leaf string) bool
}

// none stands for no switch.
const none = -1

// Make builds the switch tree from the tiers of the nodes that have GPUs.
// Switches that share no parent stay apart: no root is invented.
//
// If a node names no switch, or only the nearest of its switches, the published
// ones stand for the others. So labels that go missing move nothing, at any tier: a
// switch stays below its published parent until most of its nodes name another, and
// a parent stays as long as anything is below it. A tier goes for good when the
// nodes name other switches instead, when nothing is left below it, or when
// Site.Tiers says that the site has fewer. Silence alone never takes a tier away. A
// leaf that has lost its nodes stays below its parent, empty, while it is in use
// (Site.InUse).
func Make(s *Site, paths Paths) (Tree, []topology.Problem) {
	if len(s.Published) == 0 && paths == nil {
		return Tree{}, nil
	}
	published := readPublishedTree(s.Published, s.Tiers)
	named := readSwitches(paths, len(s.Facts))
	known := matchSwitches(named, published)
	voted := countParents(s, known, published)
	settled := settleParents(voted, published)
	called := nameSwitches(settled, published)
	return listSwitches(s, settled, called, published), nameTierConflicts(settled, called)
}

// namedSwitches are the switches that nodes name.
type namedSwitches struct {
	keys []switchKey
	// paths are, beside Site.Facts, indices into keys, the nearest first.
	// Neighbours share theirs.
	paths [][]int
}

// readSwitches finds the switches that nodes name.
func readSwitches(paths Paths, nodes int) namedSwitches {
	n := namedSwitches{paths: make([][]int, nodes)}
	known := map[switchKey]int{}
	var last []string
	var path []int
	for i, tiers := range paths {
		if len(tiers) == 0 {
			continue
		}
		if !slices.Equal(tiers, last) {
			last, path = tiers, make([]int, 0, len(tiers))
			for tier, value := range tiers {
				if value == "" {
					break
				}
				key := switchKey{tier, value}
				at, ok := known[key]
				if !ok {
					at = len(n.keys)
					known[key] = at
					n.keys = append(n.keys, key)
				}
				path = append(path, at)
			}
		}
		n.paths[i] = path
	}
	return n
}

// knownSwitches are the switches that nodes name and the published ones that stay.
type knownSwitches struct {
	switches    []knownSwitch
	ofPublished []int   // published switch -> index into switches, or none
	paths       [][]int // as in namedSwitches
}

type knownSwitch struct {
	switchKey
	published int // index of the published switch that this one is, or none
}

// keep returns the index of a published switch, which it adds if need be.
func (k *knownSwitches) keep(published publishedTree, at int) int {
	if k.ofPublished[at] == none {
		k.ofPublished[at] = len(k.switches)
		k.switches = append(k.switches, knownSwitch{switchKey{published.tierOf[at], published.switches[at].Name}, at})
	}
	return k.ofPublished[at]
}

// order returns the indices of the switches by tier, then by what nodes call them.
func (k *knownSwitches) order() []int {
	order := make([]int, len(k.switches))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return k.switches[a].compare(k.switches[b].switchKey) })
	return order
}

// matchSwitches finds for every switch that nodes name the published one of its
// tier and name.
func matchSwitches(named namedSwitches, published publishedTree) knownSwitches {
	k := knownSwitches{switches: make([]knownSwitch, len(named.keys)), ofPublished: make([]int, len(published.switches)), paths: named.paths}
	byName := make(map[string]int, len(published.switches))
	for i := range published.switches {
		byName[published.switches[i].Name] = i
		k.ofPublished[i] = none
	}
	for i, key := range named.keys {
		k.switches[i] = knownSwitch{key, none}
	}
	if len(published.switches) == 0 {
		return k
	}
	for _, i := range k.order() {
		sw := &k.switches[i]
		for _, name := range names.Switch(sw.tier, sw.value) {
			if at, ok := byName[name]; ok && published.tierOf[at] == sw.tier && k.ofPublished[at] == none {
				sw.published, k.ofPublished[at] = at, i
				break
			}
		}
	}
	return k
}

// nameSwitches returns the names of the switches: published names stay, and a new
// switch gets the best of its names that no other has.
func nameSwitches(set settledSwitches, published publishedTree) []string {
	called := make([]string, len(set.switches))
	taken := make(map[string]bool, len(called))
	for i, sw := range set.switches {
		if sw.published != none {
			called[i] = published.switches[sw.published].Name
			taken[called[i]] = true
		}
	}
	for _, i := range set.order() {
		if called[i] != "" {
			continue
		}
		for _, name := range names.Switch(set.switches[i].tier, set.switches[i].value) {
			if called[i] = name; !taken[name] {
				break
			}
		}
		taken[called[i]] = true
	}
	return called
}

// nameTierConflicts names the switches whose nodes do not agree on the parent.
func nameTierConflicts(set settledSwitches, called []string) []topology.Problem {
	var found []topology.Problem
	for i, votes := range set.votes {
		if len(votes) > 1 {
			found = append(found, topology.Problem{Reason: ReasonTierConflict, Message: fmt.Sprintf("nodes name other parents for switch %s, %d in all: %s is followed, which most of them name or were published below",
				called[i], len(votes), set.switches[set.parents[i]].value)})
		}
	}
	return found
}

// listSwitches returns the tree, leaves first, each tier by name. A switch with
// nothing below it is left out unless it is a leaf in use.
func listSwitches(s *Site, set settledSwitches, called []string, published publishedTree) Tree {
	t := Tree{leafOf: set.leaves, names: called}
	nodes, children := make([][]string, len(t.names)), make([][]string, len(t.names))
	for i, leaf := range set.leaves {
		if leaf != none {
			nodes[leaf] = append(nodes[leaf], s.Facts[i].SlurmName)
		}
	}
	order := set.order()
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(set.switches[a].tier, set.switches[b].tier), strings.Compare(t.names[a], t.names[b]))
	})
	for _, i := range order { // children come before parents
		if len(nodes[i]) == 0 && len(children[i]) == 0 && !published.leafInUse(s, set.switches[i].published) {
			continue
		}
		slices.Sort(children[i])
		if up := set.parents[i]; up != none {
			children[up] = append(children[up], t.names[i])
		}
		t.Switches = append(t.Switches, Switch{Name: t.names[i], Nodes: nodes[i], Children: children[i]})
	}
	return t
}
