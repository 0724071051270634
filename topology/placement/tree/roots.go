package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// The findings about roots.
const (
	ReasonRootAssumed = "RootAssumed"
	ReasonLeavesApart = "LeavesApart"
)

// DefaultRoot is the name of the switch above all others if the site does not name one.
const DefaultRoot = topology.FabricTopology

// top is a switch that nothing names a switch above.
type top struct {
	name     string
	nodes    int
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
func joinRoots(s *Site, t *Tree, published publishedTree, source topology.TierSource) []topology.Finding {
	tops := readTops(s, t, published)
	if len(tops) == 0 {
		return nil
	}
	groups, why := groupTops(s, t, tops, source)
	var found []topology.Finding
	var roots []top
	for _, g := range groups {
		root := top{name: g[0].name}
		if len(g) > 1 || !s.apart(source) && keepsRoot(t, &g[0], published) {
			root.name = t.nameRoot(s, g)
			found = append(found, t.join(s, g, root.name)...)
		}
		for i := range g {
			root.nodes += g[i].nodes
		}
		if root.nodes > 0 {
			roots = append(roots, root)
		}
	}
	return append(found, nameApart(roots, why)...)
}

// markJoined returns the published switches. A topology file does not tell which of them were
// joined: those below a root that has the name of the site's, and that no node names.
func markJoined(s *Site) []topology.Switch {
	root := topology.SlurmName(cmp.Or(s.RootSwitch, DefaultRoot))
	at := slices.IndexFunc(s.Published, func(p topology.Switch) bool { return p.Name == root && len(p.Children) > 0 })
	isJoined := func(p topology.Switch) bool { return p.Joined }
	isAbove := func(p topology.Switch) bool { return slices.Contains(p.Children, root) }
	names := func(f *topology.Facts) bool { return slices.Contains(f.Tiers(), root) }
	if at < 0 || slices.ContainsFunc(s.Published, isJoined) || slices.ContainsFunc(s.Published, isAbove) || slices.ContainsFunc(s.Facts, names) {
		return s.Published
	}
	marked := slices.Clone(s.Published)
	for i := range marked {
		marked[i].Joined = slices.Contains(marked[at].Children, marked[i].Name)
	}
	return marked
}

// keepsApart returns the digest of the decision that keeps published roots from being joined below a root,
// or "". It asks for none if the tops were below one published root at most.
func (s *Site) keepsApart(tops []top, root string) string {
	above := topology.ParentsOf(s.Published)
	var roots []string
	add := func(name string) {
		if !slices.ContainsFunc(s.Published, func(p topology.Switch) bool { return p.Name == name }) {
			return
		}
		for tier := 0; above[name] != "" && tier < topology.MaxTiers; tier++ {
			name = above[name]
		}
		if !slices.Contains(roots, name) {
			roots = append(roots, name)
		}
	}
	add(root)
	for i := range tops {
		add(tops[i].name)
	}
	if s.Join == nil || len(roots) < 2 {
		return ""
	}
	return s.Join(root)
}

// apart reports whether the site, the cables or the writer of the labels say that tops are separate.
func (s *Site) apart(source topology.TierSource) bool {
	return s.RootSwitch == "" && (s.Separate || source.Fabrics)
}

// readTops returns the tops of the tree, the one with most nodes first. A leaf without nodes that
// was published apart is none: it stays where it is. It returns none if there is nothing to join.
func readTops(s *Site, t *Tree, published publishedTree) []top {
	at := make(map[string]int, len(t.Switches)) // switch -> index of its top
	var tops []top
	for _, sw := range slices.Backward(t.Switches) { // a switch comes after its children
		index, below := at[sw.Name]
		if !below {
			index = len(tops)
			at[sw.Name] = index
			root := published.rootOf[sw.Name]
			if old := published.byName[sw.Name]; old != nil && old.above == nil {
				root = cmp.Or(root, sw.Name)
			}
			tops = append(tops, top{name: sw.Name, root: root})
		}
		for _, c := range sw.Children {
			at[c] = index
		}
	}
	if len(tops) < 2 && len(published.rootOf) == 0 {
		return nil
	}
	for i, f := range s.Facts {
		leaf := t.Leaf(i)
		if leaf == "" {
			continue
		}
		above := &tops[at[leaf]]
		above.nodes++
		above.cabled = above.cabled || t.NamedLeaf(i) != "" && !f.Cables.ByLLDP
		if p := f.Product(); p != "" && !slices.Contains(above.products, p) {
			above.products = append(above.products, p)
		}
	}
	tops = slices.DeleteFunc(tops, func(t top) bool { return t.nodes == 0 && !t.wasBelow() })
	slices.SortFunc(tops, func(a, b top) int { return cmp.Or(cmp.Compare(b.nodes, a.nodes), strings.Compare(a.name, b.name)) })
	return tops
}

// groupTops returns the tops that belong together, and why the groups are apart.
func groupTops(s *Site, t *Tree, tops []top, source topology.TierSource) (groups [][]top, why string) {
	switch {
	case s.RootSwitch != "":
		return together(s, t, tops)
	case s.Separate:
		return slices.Collect(slices.Chunk(tops, 1)), "the key fabrics is separate"
	case source.Fabrics && source.Network:
		return groupCabled(s, t, tops)
	case source.Fabrics:
		return slices.Collect(slices.Chunk(tops, 1)), labelsOf(source) + " name the fabric of each"
	}
	return together(s, t, tops)
}

// groupCabled keeps the fabrics that cables show apart. Nobody knows the fabric of a top that no cable shows
// now. If there is only one fabric, the top may be in it.
func groupCabled(s *Site, t *Tree, tops []top) (groups [][]top, why string) {
	var cabled, unknown []top
	for _, t := range tops {
		if t.cabled {
			cabled = append(cabled, t)
		} else {
			unknown = append(unknown, t)
		}
	}
	if len(cabled) < 2 {
		return together(s, t, tops)
	}
	groups, why = slices.Collect(slices.Chunk(cabled, 1)), "no cable joins them"
	if len(unknown) == 0 {
		return groups, why
	}
	others, held := together(s, t, unknown)
	if why += ", as far as is known"; held != "" {
		why += ", and " + held
	}
	return append(groups, others...), why
}

// together makes one group of tops. If people have to approve first that published roots are joined, the
// published groups stay, and a new top is alone.
func together(s *Site, t *Tree, tops []top) (groups [][]top, why string) {
	digest := s.keepsApart(tops, t.nameRoot(s, tops))
	if digest == "" {
		return [][]top{tops}, ""
	}
	for _, t := range tops {
		at := slices.IndexFunc(groups, func(g []top) bool { return t.root != "" && g[0].root == t.root })
		if at < 0 {
			groups = append(groups, []top{t})
		} else {
			groups[at] = append(groups[at], t)
		}
	}
	return groups, "they stay apart until somebody approves the change (digest " + digest + ")"
}

// nameRoot returns the name of the root above tops: a published one, else that of the site. Another switch
// may have the name: then that switch is the root if it is one of the tops with switches below it, and
// otherwise the root gets another name.
func (t *Tree) nameRoot(s *Site, tops []top) string {
	free := func(name string) bool {
		at := slices.IndexFunc(t.Switches, func(s topology.Switch) bool { return s.Name == name })
		return at < 0 || len(t.Switches[at].Children) > 0 && slices.ContainsFunc(tops, func(t top) bool { return t.name == name })
	}
	var names []string
	for i := range tops {
		if tops[i].wasBelow() {
			names = append(names, tops[i].root)
		}
	}
	slices.Sort(names)
	wanted := cmp.Or(s.RootSwitch, DefaultRoot)
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

// keepsRoot reports whether the published root above a single top stays: the top was below it,
// or the top is new and nothing is left that was below it.
func keepsRoot(t *Tree, alone *top, published publishedTree) bool {
	if alone.root != "" {
		return alone.wasBelow()
	}
	for below := range published.rootOf {
		if slices.ContainsFunc(t.Switches, func(s topology.Switch) bool { return s.Name == below }) {
			return false
		}
	}
	return len(published.rootOf) > 0
}

// join puts tops below a root, and says so if nobody said that they belong together.
func (t *Tree) join(s *Site, tops []top, root string) []topology.Finding {
	var children, named, products []string
	for i := range tops {
		if tops[i].name != root {
			children = append(children, tops[i].name)
		}
		if tops[i].nodes > 0 {
			named = append(named, tops[i].name)
		}
		for _, p := range tops[i].products {
			products = append(products, product(p))
		}
	}
	for i := range t.Switches {
		t.Switches[i].Joined = t.Switches[i].Joined || slices.Contains(children, t.Switches[i].Name)
	}
	above := topology.Switch{Name: root}
	if at := slices.IndexFunc(t.Switches, func(s topology.Switch) bool { return s.Name == root }); at >= 0 {
		above = t.Switches[at]
		t.Switches = slices.Delete(t.Switches, at, at+1)
	}
	above.Children = slices.Sorted(slices.Values(slices.Concat(above.Children, children)))
	t.Switches = append(t.Switches, above)
	if s.RootSwitch != "" || len(named) < 2 {
		return nil
	}
	with := ""
	slices.Sort(products)
	if products = slices.Compact(products); len(products) > 1 {
		with = ", with GPUs of " + few(products)
	}
	return []topology.Finding{{Reason: ReasonRootAssumed, Message: fmt.Sprintf("no label joins %s: switch %s is put above them, so a job may use all of them%s; "+
		"set rootSwitch: %[2]s if that is so, or fabrics: separate if no link joins them", few(named), root, with)}}
}

// product returns a GPU product in one spelling, because reports and labels have several: the chip if
// it is known.
func product(name string) string {
	if chip, _, known := topology.LargestDomain(name); known {
		return chip
	}
	return strings.ReplaceAll(name, "-", " ")
}

// maxNamed is how many switches a message names.
const maxNamed = 6

// few names some switches.
func few(names []string) string {
	slices.Sort(names)
	if len(names) > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}

// nameApart says which jobs cannot run because nothing joins the roots.
func nameApart(roots []top, why string) []topology.Finding {
	if len(roots) < 2 {
		return nil
	}
	var names []string
	most := 0
	for _, r := range roots {
		names, most = append(names, r.name), max(most, r.nodes)
	}
	return []topology.Finding{{Reason: ReasonLeavesApart, Message: fmt.Sprintf("no job of more than %d nodes can run in the switch tree: no switch joins %s, because %s", most, few(names), why)}}
}
