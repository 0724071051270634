package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// top is a switch that nothing names a switch above.
type top struct {
	name     string
	nodes    int
	leaves   []string
	products []string // of the nodes
	// root is the published root above the top, or the top itself if it was one. It is empty for a new switch.
	root string
	// cabled: a node below shows by its cables now which fabric the top is in. LLDP does not show that.
	cabled bool
}

// wasBelow reports whether the top was published below a root that Quoin had put above it.
func (t *top) wasBelow() bool { return t.root != "" && t.root != t.name }

// joinRoots puts all tops below one root, unless they are known to be separate fabrics: the site, the
// cables or the writer of the labels says so, or people have not yet approved that published roots are
// joined. It says which tops it joined, and which jobs cannot run because roots stay apart.
func joinRoots(nodes []*node, t *tree, source topology.TierSource, old *oldTree) (found problems) {
	tops, empty := readTops(nodes, t, old)
	if len(tops) == 0 {
		return nil
	}
	policy := old.policy
	separate := policy.RootSwitch == "" && (policy.SeparateFabrics || source.Fabrics)
	groups, why := groupTops(t, tops, source, old)
	var roots []string
	most := 0
	for _, g := range groups {
		root, nodes, leaves := g[0].name, 0, []string(nil)
		if len(g) > 1 || !separate && keepsRoot(t, &g[0], old) {
			root = t.nameRoot(g, policy)
			found = append(found, t.join(g, root, policy)...)
		}
		if to := t.joined[g[0].name]; to != "" {
			t.joined[root] = to
		}
		for i := range g {
			nodes, leaves = nodes+g[i].nodes, append(leaves, g[i].leaves...)
		}
		if nodes > 0 {
			roots, most = append(roots, root), max(most, nodes)
		} else {
			empty = append(empty, leaves...)
		}
	}
	if len(roots) > 1 {
		found.add("", ReasonLeavesApart, fmt.Sprintf("no job of more than %d nodes can run in the switch tree: no switch joins %s, because %s", most, few(roots), why))
	}
	if len(roots) > 0 && len(empty) > 0 {
		found.add("", ReasonLeavesApart, fmt.Sprintf("the switch tree has roots without nodes, above %s: these leaves stay, because Slurm may have stored their names for a node; name them in forgetSwitches if no node of Slurm has them", few(empty)))
	}
	return found
}

// readTops returns the tops of the tree, the one with most nodes first. It returns none if there is nothing to
// join. A top without nodes that was published apart stays where it is: empty are the leaves below such tops.
func readTops(nodes []*node, t *tree, old *oldTree) (tops []top, empty []string) {
	at := make(map[string]int, len(t.switches))      // switch -> index of its top
	for _, sw := range slices.Backward(t.switches) { // a switch comes after its children
		index, below := at[sw.Name]
		if !below {
			index = len(tops)
			at[sw.Name] = index
			root := old.rootOf[sw.Name]
			if o := old.byName[sw.Name]; o != nil && len(o.path) == 1 {
				root = cmp.Or(root, sw.Name)
			}
			tops = append(tops, top{name: sw.Name, root: root})
		}
		for _, c := range sw.Children {
			at[c] = index
		}
		if len(sw.Children) == 0 {
			tops[index].leaves = append(tops[index].leaves, sw.Name)
		}
	}
	if len(tops) < 2 && len(old.rootOf) == 0 {
		return nil, nil
	}
	for _, n := range nodes {
		if n.leaf == "" {
			continue
		}
		above := &tops[at[n.leaf]]
		above.nodes++
		above.cabled = above.cabled || n.namedLeaf() != "" && !n.Cables.ByLLDP
		if p := n.Product(); p != "" && !slices.Contains(above.products, p) {
			above.products = append(above.products, p)
		}
	}
	tops = slices.DeleteFunc(tops, func(t top) bool {
		apart := t.nodes == 0 && !t.wasBelow()
		if apart {
			empty = append(empty, t.leaves...)
		}
		return apart
	})
	slices.SortFunc(tops, func(a, b top) int { return cmp.Or(cmp.Compare(b.nodes, a.nodes), strings.Compare(a.name, b.name)) })
	return tops, empty
}

// groupTops returns the tops that belong together, and why the groups are apart.
func groupTops(t *tree, tops []top, source topology.TierSource, old *oldTree) (groups [][]top, why string) {
	switch policy := old.policy; {
	case policy.RootSwitch != "":
		return together(t, tops, old)
	case policy.SeparateFabrics:
		return slices.Collect(slices.Chunk(tops, 1)), "the key fabrics is separate"
	case source.Fabrics && !source.Network:
		return slices.Collect(slices.Chunk(tops, 1)), labelsOf(source) + " name the fabric of each"
	}
	var cabled, unknown []top // nobody knows the fabric of a top that no cable shows now
	for _, t := range tops {
		if source.Fabrics && t.cabled {
			cabled = append(cabled, t)
		} else {
			unknown = append(unknown, t)
		}
	}
	if len(cabled) < 2 { // all others may be in the one fabric
		return together(t, tops, old)
	}
	groups, why = slices.Collect(slices.Chunk(cabled, 1)), "no cable joins them"
	if len(unknown) > 0 {
		others, whyOthers := together(t, unknown, old)
		groups, why = append(groups, others...), why+", as far as is known"
		if whyOthers != "" {
			why += ", and " + whyOthers
		}
	}
	return groups, why
}

// together makes one group of tops. If people have to approve first that published roots are joined, the
// published groups stay, and a new top is alone.
func together(t *tree, tops []top, old *oldTree) (groups [][]top, why string) {
	root := t.nameRoot(tops, old.policy)
	if !old.joins(tops, root) {
		return [][]top{tops}, ""
	}
	waits := old.policy.follow(Choice{Decision: Decision{Kind: RootsJoin, Subject: root, From: "several root switches", To: root},
		Message: fmt.Sprintf("switch %s would be put above the published root switches, because nothing says that they are separate fabrics: then a job may use nodes of all; "+
			"configure fabrics: separate if no link joins them", root)})
	if waits == nil {
		return [][]top{tops}, ""
	}
	t.joined = make(map[string]string, len(tops))
	for _, top := range tops {
		t.joined[top.name] = root
	}
	for _, t := range tops {
		at := indexOrAdd(&groups, func(g []top) bool { return t.root != "" && g[0].root == t.root }, nil)
		groups[at] = append(groups[at], t)
	}
	return groups, "they stay apart until somebody approves the change (digest " + waits.Digest() + ")"
}

// joins reports whether a root above tops joins several published roots.
func (old *oldTree) joins(tops []top, root string) bool {
	roots := map[string]bool{}
	for _, below := range old.rootOf {
		if below == root {
			roots[root] = true
		}
	}
	for i := range tops {
		if sw := old.byName[tops[i].name]; sw != nil {
			highest := sw.path[len(sw.path)-1].Name
			roots[cmp.Or(old.rootOf[highest], highest)] = true
		}
	}
	return len(roots) > 1
}

// nameRoot returns the name of the root above tops: a published one, else that of the site. Another switch
// may have the name: then that switch is the root if it is one of the tops with switches below it, and
// otherwise the root gets another name.
func (t *tree) nameRoot(tops []top, policy *Policy) string {
	free := func(name string) bool {
		at := t.find(name)
		return at < 0 || len(t.switches[at].Children) > 0 && slices.ContainsFunc(tops, func(t top) bool { return t.name == name })
	}
	var names []string
	for i := range tops {
		if tops[i].wasBelow() {
			names = append(names, tops[i].root)
		}
	}
	slices.Sort(names)
	wanted := cmp.Or(policy.RootSwitch, topology.FabricTopology)
	names = append(names, topology.SlurmName(wanted))
	if at := slices.IndexFunc(names, free); at >= 0 {
		return names[at]
	}
	for n := 2; ; n++ {
		if name := topology.SlurmName(fmt.Sprintf("%s-%d", wanted, n)); free(name) {
			return name
		}
	}
}

// find returns the index of a switch, or -1.
func (t *tree) find(name string) int {
	return slices.IndexFunc(t.switches, func(s topology.Switch) bool { return s.Name == name })
}

// keepsRoot reports whether the published root above a single top stays: the top was below it,
// or the top is new and nothing is left that was below it.
func keepsRoot(t *tree, alone *top, old *oldTree) bool {
	if alone.root != "" {
		return alone.wasBelow()
	}
	for below := range old.rootOf {
		if t.find(below) >= 0 {
			return false
		}
	}
	return len(old.rootOf) > 0
}

// join puts tops below a root, and says so if nobody said that they belong together.
func (t *tree) join(tops []top, root string, policy *Policy) (found problems) {
	var children, named, products []string
	for i := range tops {
		if tops[i].name != root {
			children = append(children, tops[i].name)
		}
		if tops[i].nodes > 0 {
			named = append(named, tops[i].name)
		}
		for _, p := range tops[i].products {
			products = append(products, productOf(p))
		}
	}
	for i := range t.switches {
		t.switches[i].Joined = t.switches[i].Joined || slices.Contains(children, t.switches[i].Name)
	}
	above := topology.Switch{Name: root}
	if at := t.find(root); at >= 0 {
		above = t.switches[at]
		t.switches = slices.Delete(t.switches, at, at+1)
	}
	above.Children = slices.Sorted(slices.Values(slices.Concat(above.Children, children)))
	t.switches = append(t.switches, above)
	if policy.RootSwitch != "" || len(named) < 2 {
		return nil
	}
	with := ""
	slices.Sort(products)
	if products = slices.Compact(products); len(products) > 1 {
		with = ", with GPUs of " + few(products)
	}
	found.add("", ReasonRootAssumed, fmt.Sprintf("no label joins %s: switch %s is put above them, so a job may use all of them%s; "+
		"set rootSwitch: %[2]s if that is so, or fabrics: separate if no link joins them", few(named), root, with))
	return found
}

// productOf returns a GPU product in one spelling, because reports and labels have several: the chip if
// it is known.
func productOf(name string) string {
	if chip, _, known := fabric.Bounds(nil).Of(name); known {
		return chip
	}
	return strings.ReplaceAll(name, "-", " ")
}

// few names at most six.
func few(names []string) string {
	const most = 6
	slices.Sort(names)
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
