package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
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
	products []string
	// root is the published root that Quoin put the top below. own is the top itself if it was a
	// published root. Both are empty for a new switch.
	root, own string
	// cabled: a node below shows by its cables now which fabric the top is in. LLDP does not show that.
	cabled bool
}

// joinRoots puts tops below one root, unless they are known to be separate fabrics: the site or
// the writer of the labels says so, their nodes share no GPU product, or people have not yet
// approved that published roots are joined. Tops that were joined stay so, whatever their nodes
// have. It says which tops it joined, and which jobs cannot run because roots stay apart.
func joinRoots(s *Site, t *Tree, published publishedTree, source topology.TierSource) []topology.Finding {
	tops := readTops(s, t, published)
	if len(tops) == 0 {
		return nil
	}
	groups, why := groupTops(s, tops, source)
	names := t.nameRoots(s, groups)
	var found []topology.Finding
	var roots []top
	var reasons []string
	if len(groups) > 1 {
		reasons = append(reasons, why)
	}
	for i, g := range groups {
		together := [][]top{g}
		if digest := s.keepsApart(names[i]); digest != "" {
			together = byPublishedRoot(g)
			reasons = append(reasons, "they stay apart until somebody approves the change (digest "+digest+")")
		}
		for _, g := range together {
			root := top{name: g[0].name, nodes: nodesOf(g)}
			if len(g) > 1 || !s.apart(source) && keepsRoot(t, g[0], published) {
				root.name = names[i]
				found = append(found, t.join(s, g, root.name)...)
			}
			if root.nodes > 0 {
				roots = append(roots, root)
			}
		}
	}
	t.sort()
	return append(found, nameApart(roots, strings.Join(reasons, ", and "))...)
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

// keepsApart is KeepsApart, which may be nil.
func (s *Site) keepsApart(root string) string {
	if s.KeepsApart == nil {
		return ""
	}
	return s.KeepsApart(root)
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
			is := top{name: sw.Name, root: published.rootOf[sw.Name]}
			if old, ok := published.byName[sw.Name]; ok && is.root == "" && published.above[old] == none {
				is.own = sw.Name
			}
			tops = append(tops, is)
		}
		for _, c := range sw.Children {
			at[c] = index
		}
	}
	if len(tops) < 2 && len(published.rootOf) == 0 {
		return nil
	}
	leaf, has, index := "", "", 0 // of the node before
	for i, f := range s.Facts {
		named, name := t.Leaf(i), f.Product()
		if named == "" {
			continue
		}
		if named != leaf || name != has {
			leaf, has, index = named, name, at[named]
			if p := product(name); p != "" && !slices.Contains(tops[index].products, p) {
				tops[index].products = append(tops[index].products, p)
			}
		}
		tops[index].nodes++
		tops[index].cabled = tops[index].cabled || t.NamedLeaf(i) != "" && !f.Cables.ByLLDP
	}
	tops = slices.DeleteFunc(tops, func(t top) bool { return t.nodes == 0 && t.root == "" })
	slices.SortFunc(tops, func(a, b top) int { return cmp.Or(cmp.Compare(b.nodes, a.nodes), strings.Compare(a.name, b.name)) })
	return tops
}

// product returns a GPU product in one spelling, because reports and labels have several: the chip if
// it is known.
func product(name string) string {
	if chip, _, known := fabric.Bounds(nil).Of(name); known {
		return chip
	}
	return strings.ReplaceAll(name, "-", " ")
}

// groupTops returns the tops that belong together, and why the groups are apart.
func groupTops(s *Site, tops []top, source topology.TierSource) (groups [][]top, why string) {
	switch {
	case s.RootSwitch != "":
		return [][]top{tops}, ""
	case s.Separate:
		return slices.Collect(slices.Chunk(tops, 1)), "the key fabrics is separate"
	case source == topology.SourceCables:
		return groupCabled(tops)
	case source.Fabrics:
		return slices.Collect(slices.Chunk(tops, 1)), "labels of " + source.Name + " name the fabric of each"
	}
	return groupByProduct(tops)
}

// groupCabled keeps the fabrics that cables show apart. Nobody knows the fabric of a top that no cable shows
// now. If there is only one fabric, the top may be in it.
func groupCabled(tops []top) (groups [][]top, why string) {
	var cabled, unknown []top
	for _, is := range tops {
		if is.cabled {
			cabled = append(cabled, is)
		} else {
			unknown = append(unknown, is)
		}
	}
	if len(cabled) < 2 {
		return groupByProduct(tops)
	}
	groups = slices.Collect(slices.Chunk(cabled, 1))
	if len(unknown) == 0 {
		return groups, "no cable joins them"
	}
	others, _ := groupByProduct(unknown)
	return append(groups, others...), "no cable joins them, as far as is known"
}

// groupByProduct puts tops together that have a GPU product or the published root in common.
func groupByProduct(tops []top) (groups [][]top, why string) {
	why = "their nodes have no GPU product in common"
	var unknown []top
	for _, is := range tops {
		if len(is.products) == 0 && is.root == "" {
			unknown = append(unknown, is)
			continue
		}
		joined := []top{is}
		groups = slices.DeleteFunc(groups, func(g []top) bool {
			same := slices.ContainsFunc(g, is.isWith)
			if same {
				joined = append(joined, g...)
			}
			return same
		})
		groups = append(groups, joined)
	}
	switch {
	case len(groups) == 0:
		return [][]top{unknown}, why
	case len(groups) == 1:
		groups[0] = append(groups[0], unknown...)
	default: // with which of them is not known
		why = "their nodes have no GPU product in common, as far as is known"
		groups = slices.AppendSeq(groups, slices.Chunk(unknown, 1))
	}
	for _, g := range groups {
		slices.SortFunc(g, func(a, b top) int { return strings.Compare(a.name, b.name) })
	}
	slices.SortFunc(groups, func(a, b []top) int {
		return cmp.Or(cmp.Compare(nodesOf(b), nodesOf(a)), strings.Compare(a[0].name, b[0].name))
	})
	return groups, why
}

// isWith reports whether two tops are of one fabric, as far as is known of them alone.
func (t top) isWith(other top) bool {
	return t.root != "" && t.root == other.root || slices.ContainsFunc(t.products, func(p string) bool { return slices.Contains(other.products, p) })
}

func nodesOf(tops []top) int {
	n := 0
	for i := range tops {
		n += tops[i].nodes
	}
	return n
}

// byPublishedRoot divides tops by the root that they were published below. A new top is alone.
func byPublishedRoot(tops []top) [][]top {
	var groups [][]top
	for _, is := range tops {
		at := slices.IndexFunc(groups, func(g []top) bool { return is.root != "" && g[0].root == is.root })
		if at < 0 {
			groups = append(groups, []top{is})
		} else {
			groups[at] = append(groups[at], is)
		}
	}
	return groups
}

// nameRoots returns, beside the groups, the name of the root above each: the published one of
// most of its tops, else that of the site. Another switch may have the name: then that switch is
// the root if it is a top with switches below it, and otherwise the root gets another name.
func (t *Tree) nameRoots(s *Site, groups [][]top) []string {
	names := make([]string, len(groups))
	free := func(name string, g []top) bool {
		return !slices.Contains(names, name) && (!t.has(name) || t.isRoot(name, g))
	}
	for i, g := range groups {
		counts, best := map[string]int{}, ""
		for _, is := range g {
			if is.root != "" && free(is.root, g) {
				counts[is.root]++
			}
		}
		for root, n := range counts {
			if n > counts[best] || n == counts[best] && root < best {
				best = root
			}
		}
		names[i] = best
	}
	for i, g := range groups { // new names, once the published ones are taken
		if names[i] != "" {
			continue
		}
		wanted := cmp.Or(s.RootSwitch, DefaultRoot)
		name := topology.SlurmName(wanted)
		for n := 2; !free(name, g); n++ {
			name = topology.SlurmName(fmt.Sprintf("%s-%d", wanted, n))
		}
		names[i] = name
	}
	return names
}

// has reports whether a switch of the tree is called so.
func (t *Tree) has(name string) bool {
	return slices.ContainsFunc(t.Switches, func(s topology.Switch) bool { return s.Name == name })
}

// isRoot reports whether a top is called so and has switches below it.
func (t *Tree) isRoot(name string, tops []top) bool {
	return slices.ContainsFunc(tops, func(is top) bool { return is.name == name }) &&
		slices.ContainsFunc(t.Switches, func(s topology.Switch) bool { return s.Name == name && len(s.Children) > 0 })
}

// keepsRoot reports whether the published root above a single top stays: the top was below it,
// or the top is new and nothing is left that was below it.
func keepsRoot(t *Tree, is top, published publishedTree) bool {
	if is.root != "" || is.own != "" {
		return is.root != ""
	}
	for below := range published.rootOf {
		if t.has(below) {
			return false
		}
	}
	return len(published.rootOf) > 0
}

// join puts tops below a root, and says so if nobody said that they belong together.
func (t *Tree) join(s *Site, tops []top, root string) []topology.Finding {
	var children, named []string
	for _, is := range tops {
		if is.name == root {
			continue
		}
		children = append(children, is.name)
	}
	for i := range t.Switches {
		t.Switches[i].Joined = t.Switches[i].Joined || slices.Contains(children, t.Switches[i].Name)
	}
	slices.Sort(children)
	at := slices.IndexFunc(t.Switches, func(s topology.Switch) bool { return s.Name == root })
	if at < 0 {
		t.Switches = append(t.Switches, topology.Switch{Name: root, Children: children})
	} else {
		is := t.Switches[at]
		is.Children = slices.Sorted(slices.Values(append(slices.Clone(is.Children), children...)))
		t.Switches = append(slices.Delete(t.Switches, at, at+1), is)
	}
	for _, is := range tops {
		if is.nodes > 0 {
			named = append(named, is.name)
		}
	}
	if s.RootSwitch != "" || len(named) < 2 {
		return nil
	}
	return []topology.Finding{{Reason: ReasonRootAssumed, Message: fmt.Sprintf("no label joins %s: switch %s is put above them, so a job may use all of them; "+
		"set rootSwitch: %[2]s if that is so, or fabrics: separate if no link joins them", few(named), root)}}
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
