package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// oldTree is the tree that was published, as labels named it (topology.NamedSwitches).
type oldTree struct {
	policy   *Policy
	inUse    map[string]bool // Observed.InUse
	switches []*oldSwitch
	byName   map[string]*oldSwitch
	byValue  map[string][]*oldSwitch // by what nodes called them
	leafOf   map[string]*oldSwitch   // Slurm name -> leaf
	// rootOf is the root that each switch was put below, by name (topology.Switch.Joined).
	rootOf map[string]string
}

// oldSwitch is a published switch.
type oldSwitch struct {
	*topology.Switch
	tier  int
	path  []*oldSwitch // from this one to its root
	below int          // nodes
	// now is the switch that has its name today. It is nil if the site no longer has this tier.
	now *knownSwitch
	// renamed: nodes now give its name to a switch of another tier.
	renamed bool
}

// readOldTree reads the published switches.
func readOldTree(nodes []*node, published []topology.Switch, inUse map[string]bool, policy *Policy) *oldTree {
	t := &oldTree{policy: policy, inUse: inUse, byName: map[string]*oldSwitch{}, byValue: map[string][]*oldSwitch{}, leafOf: map[string]*oldSwitch{}, rootOf: map[string]string{}}
	published = markJoined(nodes, published, policy)
	above := topology.ParentsOf(published)
	for i := range published {
		if sw := &published[i]; sw.Joined {
			t.rootOf[sw.Name] = above[sw.Name]
		}
	}
	named := topology.NamedSwitches(published)
	for i := range named {
		sw := &oldSwitch{Switch: &named[i]}
		t.switches, t.byName[sw.Name], t.byValue[sw.Value] = append(t.switches, sw), sw, append(t.byValue[sw.Value], sw)
		for _, n := range sw.Nodes {
			t.leafOf[n] = sw
		}
	}
	above = topology.ParentsOf(named)
	for _, sw := range t.switches {
		for at := sw; at != nil && len(sw.path) < topology.MaxTiers; at = t.byName[above[at.Name]] { // an edited file may have a loop
			if len(sw.Children) == 0 {
				at.tier = max(at.tier, len(sw.path))
			}
			sw.path, at.below = append(sw.path, at), at.below+len(sw.Nodes)
		}
	}
	return t
}

// markJoined returns the published switches. A topology file does not tell which of them were
// joined: those below a root that has the name of the site's, and that no node names.
func markJoined(nodes []*node, published []topology.Switch, policy *Policy) []topology.Switch {
	root := topology.SlurmName(cmp.Or(policy.RootSwitch, topology.FabricTopology))
	at := slices.IndexFunc(published, func(p topology.Switch) bool { return p.Name == root && len(p.Children) > 0 })
	isJoined := func(p topology.Switch) bool { return p.Joined }
	isAbove := func(p topology.Switch) bool { return slices.Contains(p.Children, root) }
	names := func(n *node) bool { return slices.Contains(n.Tiers(), root) }
	if at < 0 || slices.ContainsFunc(published, isJoined) || slices.ContainsFunc(published, isAbove) || slices.ContainsFunc(nodes, names) {
		return published
	}
	marked := slices.Clone(published)
	for i := range marked {
		marked[i].Joined = slices.Contains(marked[at].Children, marked[i].Name)
	}
	return marked
}

// calledAs returns the switches that nodes called as they call a switch now.
func (t *oldTree) calledAs(key switchKey) []*oldSwitch { return t.byValue[key.value] }

// namedAs returns the switches that have a name of a switch, the best name first.
func (t *oldTree) namedAs(key switchKey) (found []*oldSwitch) {
	for _, name := range topology.SwitchNames(key.tier, key.value) {
		if sw := t.byName[name]; sw != nil {
			found = append(found, sw)
		}
	}
	return found
}

// matchByNodes finds the published switch of each switch that has none yet: a switch of a file, of which nobody
// knows what nodes call it, if most nodes below either are below both, at the same height, and no node gives the name
// to another switch.
func (t *oldTree) matchByNodes(nodes []*node) {
	type both struct {
		now *knownSwitch
		old *oldSwitch
	}
	common := map[both]int{}
	for _, n := range nodes {
		for height, o := range t.pathOf(n) {
			if height == len(n.path) || n.path[height].gap || n.namedLeaf() == "" {
				break
			}
			if sw := n.path[height].knownSwitch; sw.old == nil && o.now == nil && !o.renamed && o.Value == "" {
				common[both{sw, o}]++
			}
		}
	}
	for b, nodes := range common {
		if 2*nodes > max(b.now.below, b.old.below) {
			b.now.old, b.old.now = b.old, b.now
		}
	}
}

// pathOf returns the published switches above a node.
func (t *oldTree) pathOf(n *node) []*oldSwitch {
	if leaf := t.leafOf[n.SlurmName]; leaf != nil {
		return leaf.path
	}
	return nil
}

// hasTier reports whether the site still has the tier of a switch, as far as its policy says.
func (t *oldTree) hasTier(sw *oldSwitch) bool { return t.policy.Tiers == 0 || sw.tier < t.policy.Tiers }

// staysEmpty reports whether a switch is a leaf that stays even if it is empty: Slurm may have stored the leaf's
// name for a node.
func (t *oldTree) staysEmpty(sw *oldSwitch) bool {
	if !t.policy.EmptyLeaves || len(sw.Children) > 0 {
		return false
	}
	return t.inUse[sw.Name] || !slices.Contains(t.policy.ForgetSwitches, sw.Name) && !slices.ContainsFunc(sw.path, func(sw *oldSwitch) bool { return sw.renamed })
}

// nameForgottenSwitches names the switches that are to be forgotten and that stay.
func nameForgottenSwitches(policy *Policy, switches []topology.Switch) (found problems) {
	for i := range switches {
		sw := &switches[i]
		if !slices.Contains(policy.ForgetSwitches, sw.Name) {
			continue
		}
		why := "is named by annotations of nodes"
		switch {
		case len(sw.Nodes) > 0:
			why = fmt.Sprintf("has %d nodes, such as %s", len(sw.Nodes), sw.Nodes[0])
		case len(sw.Children) > 0:
			why = "has switches below it, such as " + sw.Children[0]
		}
		found.add("", ReasonForgottenInUse, fmt.Sprintf("forgetSwitches names switch %s, but the switch %s: it stays", sw.Name, why))
	}
	return found
}
