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
	// Join decides whether several published roots are joined below a root. It returns the digest of
	// the decision that keeps them apart, or "". It may be nil: then they are joined.
	Join func(root string) (waits string)
}

// Tree is the switches of a plan.
type Tree struct {
	Switches []topology.Switch // every switch after its children
	// Source is what topology.Topology.Source says.
	Source string
	named  [][]string // beside Site.Facts: what the node names, the nearest first
	leaves []string   // beside Site.Facts: the leaf above the node, or ""; nil without a tree
}

// Leaf returns the name of the leaf switch above a node, empty if there is none.
func (t *Tree) Leaf(node int) string {
	if t.leaves == nil {
		return ""
	}
	return t.leaves[node]
}

// NamedLeaf returns what the node itself calls its leaf switch, empty if it names none.
func (t *Tree) NamedLeaf(node int) string {
	if len(t.named[node]) == 0 {
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
	old := readPublished(markJoined(s), s.Tiers)
	named, source, found := chooseTiers(s, old)
	t := Tree{named: named, Source: s.Source}
	anyNamed := slices.ContainsFunc(named, func(tiers []string) bool { return len(tiers) > 0 })
	if len(s.Published) == 0 && !anyNamed {
		return Tree{named: named}, found
	}
	all, paths := readSwitches(s, named, source.Unique, old)
	leaves := countVotes(s, named, paths, old)
	loops := settleParents(all, old)
	t.list(s, all, leaves, old)
	if anyNamed {
		t.Source = ""
		if source.Network {
			t.Source = source.Name
		}
	}
	joined := joinRoots(s, &t, old, source)
	t.sort()
	return t, slices.Concat(found, nameConflicts(all), nameLoops(s, loops), joined, nameEmptyRoots(t.Switches), nameForgotten(s, t.Switches))
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

// knownSwitch is a switch that nodes name, or another published switch of the site's tiers.
type knownSwitch struct {
	switchKey
	called string     // what nodes call it, now or before, or ""
	old    *oldSwitch // the published one, or nil
	votes  []vote     // for its parent
	above  *knownSwitch
	nodes  []string // if it is a leaf
	// levels counts the switches below each other that end in this one. 0: it is left out of the tree.
	levels int
	name   string // in the tree
}

// step is a switch on the way up from a node. gap: the node does not name the tier below it.
type step struct {
	*knownSwitch
	gap bool
}

// ownLeaf ends the name of a leaf that Quoin adds below the nearest switch that a node names.
const ownLeaf = "-leaf"

// readSwitches finds the switches that nodes name, and the published one of each. It adds the published switches
// that no node names. paths are, beside Site.Facts, the switches that the node names, the nearest first.
func readSwitches(s *Site, named [][]string, unique bool, old publishedTree) (all []*knownSwitch, paths [][]step) {
	known := map[switchKey]*knownSwitch{}
	find := func(key switchKey) *knownSwitch {
		if known[key] == nil {
			known[key] = &knownSwitch{switchKey: key, called: key.value}
			all = append(all, known[key])
		}
		return known[key]
	}
	paths = make([][]step, len(named))
	for i, tiers := range named {
		path, gap := make([]step, 0, len(tiers)), false
		for tier, value := range tiers {
			if value == "" {
				gap = true
				continue
			}
			if gap && len(path) == 0 {
				path, gap = append(path, step{find(switchKey{0, value + ownLeaf}), false}), false
			}
			path, gap = append(path, step{find(keyOf(tiers, tier, unique)), gap}), false
		}
		paths[i] = path
	}
	slices.SortFunc(all, func(a, b *knownSwitch) int { return a.compare(b.switchKey) })
	for _, find := range []func(switchKey) []*oldSwitch{old.calledAs, old.namedAs} {
		for _, exactly := range []bool{true, false} {
			for _, sw := range all {
				sw.match(find(sw.switchKey), unique, exactly)
			}
		}
	}
	for _, sw := range all {
		if was := old.byName[topology.SlurmName(sw.value)]; was != nil && was != sw.old {
			was.renamed = true
		}
	}
	old.matchByNodes(s, named, paths)
	for _, was := range old.switches {
		if was.now == nil && old.keeps(was) {
			was.now = &knownSwitch{switchKey: switchKey{was.tier, was.Name}, called: was.Value, old: was}
			all = append(all, was.now)
		}
	}
	return all, paths
}

// match takes the first published switch that is of the same tier. The published tier is counted in switches, so it
// is lower if the nodes do not name a tier between them; exactly asks for one that is not.
func (sw *knownSwitch) match(published []*oldSwitch, unique, exactly bool) {
	for _, was := range published {
		if sw.old != nil || was.now != nil || (sw.tier == 0) != (was.tier == 0) {
			continue
		}
		if unique || sw.tier == was.tier || !exactly && sw.tier > was.tier {
			sw.old, was.now = was, sw
		}
	}
}

// list fills in the tree, each switch after its children. A switch with nothing below it is left out unless it is
// a leaf that stays.
func (t *Tree) list(s *Site, all []*knownSwitch, leaves []*knownSwitch, old publishedTree) {
	for i, leaf := range leaves {
		if leaf != nil {
			leaf.nodes = append(leaf.nodes, s.Facts[i].SlurmName)
		}
	}
	for _, leaf := range all {
		if len(leaf.nodes) > 0 || leaf.old != nil && old.staysEmpty(s, leaf.old) {
			for n, sw := 1, leaf; sw != nil && sw.levels < n; n, sw = n+1, sw.above {
				sw.levels = n
			}
		}
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(sw *knownSwitch) bool { return sw.levels == 0 })
	slices.SortStableFunc(kept, func(a, b *knownSwitch) int { return a.compare(b.switchKey) })
	nameSwitches(kept, old)
	children := map[*knownSwitch][]string{}
	slices.SortStableFunc(kept, func(a, b *knownSwitch) int { return cmp.Compare(a.levels, b.levels) })
	for _, sw := range kept {
		slices.Sort(children[sw])
		t.Switches = append(t.Switches, topology.Switch{Name: sw.name, Nodes: sw.nodes, Children: children[sw], Value: sw.called})
		if sw.above != nil {
			children[sw.above] = append(children[sw.above], sw.name)
		}
	}
	t.leaves = make([]string, len(leaves))
	for i, leaf := range leaves {
		if leaf != nil {
			t.leaves[i] = leaf.name
		}
	}
}

// nameSwitches names the switches: published names stay, and a new switch gets the best of its names that no
// other has.
func nameSwitches(kept []*knownSwitch, old publishedTree) {
	taken := make(map[string]bool, len(kept))
	for _, root := range old.rootOf {
		taken[root] = true
	}
	for _, sw := range kept {
		if sw.old != nil {
			sw.name = sw.old.Name
			taken[sw.name] = true
		}
	}
	for _, sw := range kept {
		if sw.name != "" {
			continue
		}
		for _, name := range topology.SwitchNames(sw.tier, sw.value) {
			if sw.name = name; !taken[name] {
				break
			}
		}
		taken[sw.name] = true
	}
}

// sort orders the switches, each after its children, by how far a switch is above the leaves, then by name. So the
// order does not depend on which roots were joined.
func (t *Tree) sort() {
	height := make(map[string]int, len(t.Switches))
	for i := range t.Switches {
		sw := &t.Switches[i]
		above := 0
		for _, c := range sw.Children {
			above = max(above, height[c]+1)
		}
		height[sw.Name] = above
	}
	slices.SortFunc(t.Switches, func(a, b topology.Switch) int {
		return cmp.Or(cmp.Compare(height[a.Name], height[b.Name]), strings.Compare(a.Name, b.Name))
	})
}
