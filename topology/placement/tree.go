package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// tree is the switches of a plan.
type tree struct {
	switches []topology.Switch // every switch after its children
	source   string            // topology.Topology.Source
	// joined are the roots that stay apart while a decision waits, with the switch that would be put above them.
	joined map[string]string
}

// makeTree builds the switch tree from the tiers of the nodes that have GPUs, and finds the leaf above each node.
// Switches that share no parent are joined below one root, unless they are known to be
// separate fabrics.
//
// If a node names no switch, or only the nearest of its switches, the published
// ones stand for the others. So labels that go missing move nothing, at any tier: a
// switch stays below its published parent until most of its nodes name another, and
// a parent stays as long as anything is below it. A tier goes for good when the
// nodes name other switches instead, when nothing is left below it, or when
// Policy.Tiers says that the site has fewer. Silence alone never takes a tier away. A
// leaf that has lost its nodes stays below its parent, empty (oldTree.staysEmpty). It goes
// if nodes now call a switch of another tier by its name or by the name of a switch above it.
//
// A tier that a node does not name says nothing: the next one that it names counts as the
// parent only if nothing else says the parent. A node that does not name its leaf, and that
// is not published, gets a leaf below the nearest switch that it names.
func makeTree(nodes []*node, prev *published, inUse map[string]bool, policy *Policy) (tree, problems) {
	old := readOldTree(nodes, prev.switches, inUse, policy)
	source, inTiers := chooseTiers(nodes, prev.source, old)
	t := tree{source: prev.source}
	if slices.ContainsFunc(nodes, func(n *node) bool { return len(n.tiers) > 0 }) {
		t.source = ""
		if source.Network {
			t.source = source.Name
		}
	} else if len(prev.switches) == 0 {
		return t, inTiers
	}
	all := readSwitches(nodes, source.Unique, old)
	fillLeaves(nodes, old)
	loops := chooseParents(all, old)
	t.list(all, old)
	inRoots := joinRoots(nodes, &t, source, old)
	t.sort()
	return t, slices.Concat(inTiers, nameConflicts(all, loops), inRoots, nameForgottenSwitches(policy, t.switches))
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
	below  int     // nodes that name it
	nodes  []*node // if it is a leaf
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
// that no node names.
func readSwitches(nodes []*node, unique bool, old *oldTree) (all []*knownSwitch) {
	known := map[switchKey]*knownSwitch{}
	find := func(key switchKey) *knownSwitch {
		if known[key] == nil {
			known[key] = &knownSwitch{switchKey: key, called: key.value}
			all = append(all, known[key])
		}
		return known[key]
	}
	for _, n := range nodes {
		path, gap := make([]step, 0, len(n.tiers)), false
		for tier, value := range n.tiers {
			if value == "" {
				gap = true
				continue
			}
			if gap && len(path) == 0 {
				path, gap = append(path, step{find(switchKey{0, value + ownLeaf}), false}), false
			}
			path, gap = append(path, step{find(keyOf(n.tiers, tier, unique)), gap}), false
		}
		for _, p := range path {
			p.below++
		}
		n.path = path
	}
	slices.SortFunc(all, func(a, b *knownSwitch) int { return a.compare(b.switchKey) })
	for _, find := range []func(switchKey) []*oldSwitch{old.calledAs, old.namedAs} {
		for _, exactly := range []bool{true, false} {
			for _, sw := range all {
				sw.take(find(sw.switchKey), unique, exactly)
			}
		}
	}
	for _, sw := range all {
		if o := old.byName[topology.SlurmName(sw.value)]; o != nil && o != sw.old {
			o.renamed = true
		}
	}
	old.matchByNodes(nodes)
	for _, o := range old.switches {
		if o.now == nil && old.hasTier(o) {
			o.now = &knownSwitch{switchKey: switchKey{o.tier, o.Name}, called: o.Value, old: o}
			all = append(all, o.now)
		}
	}
	return all
}

// take takes the first published switch of the same tier. The published tier is counted in switches, so it
// is lower if the nodes do not name a tier between them; exactly asks for one that is not.
func (sw *knownSwitch) take(published []*oldSwitch, unique, exactly bool) {
	for _, o := range published {
		if sw.old != nil || o.now != nil || (sw.tier == 0) != (o.tier == 0) {
			continue
		}
		if unique || sw.tier == o.tier || !exactly && sw.tier > o.tier {
			sw.old, o.now = o, sw
		}
	}
}

// list fills in the tree, each switch after its children. A switch with nothing below it is left out unless it is
// a leaf that stays.
func (t *tree) list(all []*knownSwitch, old *oldTree) {
	for _, leaf := range all {
		if len(leaf.nodes) > 0 || leaf.old != nil && old.staysEmpty(leaf.old) {
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
		for _, n := range sw.nodes {
			n.leaf = sw.name
		}
		slices.Sort(children[sw])
		t.switches = append(t.switches, topology.Switch{Name: sw.name, Nodes: slurmNames(sw.nodes), Children: children[sw], Value: sw.called})
		if sw.above != nil {
			children[sw.above] = append(children[sw.above], sw.name)
		}
	}
}

// nameSwitches names the switches: published names stay, and a new switch gets the best of its names that no
// other has.
func nameSwitches(kept []*knownSwitch, old *oldTree) {
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
func (t *tree) sort() {
	height := make(map[string]int, len(t.switches))
	for i := range t.switches {
		sw := &t.switches[i]
		above := 0
		for _, c := range sw.Children {
			above = max(above, height[c]+1)
		}
		height[sw.Name] = above
	}
	slices.SortFunc(t.switches, func(a, b topology.Switch) int {
		return cmp.Or(cmp.Compare(height[a.Name], height[b.Name]), strings.Compare(a.Name, b.Name))
	})
}
