package tree

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// publishedTree is the tree that was published, as labels named it (topology.NamedSwitches).
type publishedTree struct {
	switches []*oldSwitch
	byName   map[string]*oldSwitch
	byValue  map[string][]*oldSwitch // by what nodes called them
	leafOf   map[string]*oldSwitch   // Slurm name -> leaf
	tiers    int                     // Site.Tiers
	// rootOf is the root that each switch was put below, by name (topology.Switch.Joined).
	rootOf map[string]string
}

// oldSwitch is a published switch.
type oldSwitch struct {
	*topology.Switch
	tier  int
	above *oldSwitch // or nil
	// now is the switch that has its name today. It is nil if the site no longer has this tier.
	now *knownSwitch
	// renamed: nodes now give its name to a switch of another tier.
	renamed bool
}

func readPublished(switches []topology.Switch, tiers int) publishedTree {
	t := publishedTree{byName: map[string]*oldSwitch{}, byValue: map[string][]*oldSwitch{}, leafOf: map[string]*oldSwitch{}, rootOf: map[string]string{}, tiers: tiers}
	above := topology.ParentsOf(switches)
	for i := range switches {
		if sw := &switches[i]; sw.Joined {
			t.rootOf[sw.Name] = above[sw.Name]
		}
	}
	named := topology.NamedSwitches(switches)
	for i := range named {
		sw := &oldSwitch{Switch: &named[i]}
		t.switches, t.byName[sw.Name], t.byValue[sw.Value] = append(t.switches, sw), sw, append(t.byValue[sw.Value], sw)
		for _, n := range sw.Nodes {
			t.leafOf[n] = sw
		}
	}
	for _, sw := range t.switches {
		for _, c := range sw.Children {
			if child := t.byName[c]; child != nil {
				child.above = sw
			}
		}
	}
	for _, leaf := range t.switches {
		if len(leaf.Children) == 0 {
			for tier, sw := range leaf.path() {
				sw.tier = max(sw.tier, tier)
			}
		}
	}
	return t
}

// calledAs returns the switches that nodes called as they call a switch now.
func (t *publishedTree) calledAs(key switchKey) []*oldSwitch { return t.byValue[key.value] }

// namedAs returns the switches that have a name of a switch, the best name first.
func (t *publishedTree) namedAs(key switchKey) (found []*oldSwitch) {
	for _, name := range topology.SwitchNames(key.tier, key.value) {
		if sw := t.byName[name]; sw != nil {
			found = append(found, sw)
		}
	}
	return found
}

// matchByNodes finds the published switch of each switch that has none yet: a switch of a file, of which nobody
// knows what nodes call it, if most nodes below either are below both, at the same height. paths are those of the
// nodes, and no node gives the name to another switch.
func (t *publishedTree) matchByNodes(s *Site, named [][]string, paths [][]step) {
	type both struct {
		now *knownSwitch
		was *oldSwitch
	}
	now, before, common := map[*knownSwitch]int{}, map[*oldSwitch]int{}, map[both]int{}
	for i, path := range paths {
		for _, p := range path {
			now[p.knownSwitch]++
		}
		for height, was := range t.leafOf[s.Facts[i].SlurmName].path() {
			if height == len(path) || path[height].gap || named[i][0] == "" {
				break
			}
			if sw := path[height].knownSwitch; sw.old == nil && was.now == nil && !was.renamed && was.Value == "" {
				common[both{sw, was}]++
			}
		}
	}
	for _, leaf := range t.switches {
		for _, was := range leaf.path() {
			before[was] += len(leaf.Nodes)
		}
	}
	for b, nodes := range common {
		if 2*nodes > max(now[b.now], before[b.was]) {
			b.now.old, b.was.now = b.was, b.now
		}
	}
}

// path returns the switches from a leaf to its root. leaf may be nil.
func (leaf *oldSwitch) path() []*oldSwitch {
	var path []*oldSwitch
	for sw := leaf; sw != nil && len(path) < topology.MaxTiers; sw = sw.above {
		path = append(path, sw)
	}
	return path
}

// keeps reports whether the site still has the tier of a switch, as far as its
// policy says.
func (t *publishedTree) keeps(sw *oldSwitch) bool { return t.tiers == 0 || sw.tier < t.tiers }

// staysEmpty reports whether a switch is a leaf that stays even if it is empty.
func (t *publishedTree) staysEmpty(s *Site, sw *oldSwitch) bool {
	switch {
	case len(sw.Children) > 0:
		return false
	case s.InUse(sw.Name):
		return true
	}
	return s.EmptyLeaves && !slices.Contains(s.Forget, sw.Name) && !slices.ContainsFunc(sw.path(), func(sw *oldSwitch) bool { return sw.renamed })
}

// nameForgotten names the switches that are to be forgotten and that stay.
func nameForgotten(s *Site, switches []topology.Switch) []topology.Finding {
	var found []topology.Finding
	for i := range switches {
		sw := &switches[i]
		if !slices.Contains(s.Forget, sw.Name) {
			continue
		}
		why := "is named by annotations of nodes"
		switch {
		case len(sw.Nodes) > 0:
			why = fmt.Sprintf("has %d nodes, such as %s", len(sw.Nodes), sw.Nodes[0])
		case len(sw.Children) > 0:
			why = "has switches below it, such as " + sw.Children[0]
		}
		found = append(found, topology.Finding{Reason: ReasonForgottenInUse, Message: fmt.Sprintf("forgetSwitches names switch %s, but the switch %s: it stays", sw.Name, why)})
	}
	return found
}

// nameEmptyRoots names the leaves that stay below a root of their own without any node, beside a root with nodes.
func nameEmptyRoots(switches []topology.Switch) []topology.Finding {
	above, used := topology.ParentsOf(switches), map[string]bool{}
	rootOf := func(name string) string {
		for tier := 0; above[name] != "" && tier < topology.MaxTiers; tier++ {
			name = above[name]
		}
		return name
	}
	for i := range switches {
		if len(switches[i].Nodes) > 0 {
			used[rootOf(switches[i].Name)] = true
		}
	}
	var empty []string
	for i := range switches {
		if sw := &switches[i]; len(sw.Children) == 0 && !used[rootOf(sw.Name)] {
			empty = append(empty, sw.Name)
		}
	}
	if len(empty) == 0 || len(used) == 0 {
		return nil
	}
	return []topology.Finding{{Reason: ReasonLeavesApart, Message: fmt.Sprintf("the switch tree has roots without nodes, above %s: these leaves stay, because Slurm may have stored their names for a node; name them in forgetSwitches if no node of Slurm has them", few(empty))}}
}

// vote is how many nodes put a switch below the parent.
type vote struct {
	parent *knownSwitch
	// nodes name both, and nothing is missing between them. across name a further switch
	// above the parent's place: a tier between them is not known.
	nodes, across int
	first         int // the first of the nodes
}

// countVotes finds the leaf of every node, or nil, and counts for every switch the parents that its nodes name.
// A path that ends below the published switches of the node goes on with these.
func countVotes(s *Site, named [][]string, paths [][]step, old publishedTree) (leaves []*knownSwitch) {
	leaves = make([]*knownSwitch, len(s.Facts))
	for i, f := range s.Facts {
		path, published := paths[i], old.leafOf[f.SlurmName].path()
		if len(path) > 0 && len(published) > 0 && named[i][0] == "" { // it stays in its leaf, and its labels count above it
			above := path[1:]
			countPath(i, above)
			path = old.complete(nil, published)
			meets := func(p step) bool {
				return slices.ContainsFunc(above, func(n step) bool { return n.knownSwitch == p.knownSwitch })
			}
			if at := slices.IndexFunc(path, meets); at >= 0 {
				path = path[:at+1]
			}
		} else {
			path = old.complete(path, published)
		}
		if len(path) > 0 {
			leaves[i] = path[0].knownSwitch
			countPath(i, path)
		}
	}
	return leaves
}

// countPath counts the votes of a node for the parents on a path.
func countPath(node int, path []step) {
	for k := 1; k < len(path); k++ {
		below, up := path[k-1].knownSwitch, path[k]
		at := slices.IndexFunc(below.votes, func(v vote) bool { return v.parent == up.knownSwitch })
		if at < 0 {
			at = len(below.votes)
			below.votes = append(below.votes, vote{parent: up.knownSwitch, first: node})
		}
		if up.gap {
			below.votes[at].across++
		} else {
			below.votes[at].nodes++
		}
	}
}

// complete adds to a node's path the switches that were published above its last
// switch, as far as the site still has these tiers.
func (t *publishedTree) complete(path []step, published []*oldSwitch) []step {
	n := len(path)
	if n >= len(published) || n > 0 && path[n-1].old != published[n-1] {
		return path
	}
	for _, sw := range published[n:] {
		if !t.keeps(sw) {
			break
		}
		path = append(path, step{knownSwitch: sw.now})
	}
	return path
}

// edge puts a switch below a parent.
type edge struct {
	child, parent *knownSwitch
	// by is how far what says so counts.
	by    evidence
	nodes int // that name both
	old   bool
	first int // the first of the nodes
}

// evidence says why a switch is below a parent, the best reason first.
type evidence int8

const (
	byNodes     evidence = iota // nodes name both
	byPublished                 // it was published there, and no node names a parent
	acrossGap                   // nodes name both, and not the tier between them
)

// settleParents gives every switch the parent that most of its nodes name, the
// published one among equals, else the first. A switch whose nodes name none keeps
// the published one. Else it gets what its nodes name above a tier that they do not name.
// What would close a loop is not followed: what most nodes say goes first.
func settleParents(all []*knownSwitch, old publishedTree) (loops []edge) {
	edges := make([]edge, 0, len(all))
	for _, sw := range all {
		edges = append(edges, edgesOf(sw, old)...)
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if order := cmp.Or(cmp.Compare(a.by, b.by), cmp.Compare(b.nodes, a.nodes)); order != 0 {
			return order
		}
		if a.old != b.old {
			if a.old {
				return -1
			}
			return 1
		}
		return cmp.Or(a.child.compare(b.child.switchKey), a.parent.compare(b.parent.switchKey))
	})
	for _, e := range edges {
		if e.child.above != nil {
			continue
		}
		up := e.parent
		for up != nil && up != e.child {
			up = up.above
		}
		if up == e.child {
			loops = append(loops, e)
		} else {
			e.child.above = e.parent
		}
	}
	return loops
}

// edgesOf returns the parents that a switch may have, by the best evidence that there is.
func edgesOf(sw *knownSwitch, old publishedTree) (edges []edge) {
	var published *knownSwitch
	if sw.old != nil && sw.old.above != nil && old.keeps(sw.old.above) {
		published = sw.old.above.now
	}
	named := slices.ContainsFunc(sw.votes, func(v vote) bool { return v.nodes > 0 })
	if !named && published != nil {
		return []edge{{child: sw, parent: published, by: byPublished, old: true}}
	}
	for _, v := range sw.votes {
		e := edge{sw, v.parent, byNodes, v.nodes, v.parent == published, v.first}
		if !named {
			e.by, e.nodes = acrossGap, v.across
		}
		if e.nodes > 0 {
			edges = append(edges, e)
		}
	}
	return edges
}

// nameConflicts names the switches of the tree whose nodes do not agree on the parent.
func nameConflicts(all []*knownSwitch) []topology.Finding {
	var found []topology.Finding
	for _, sw := range all {
		parents := 0
		for _, v := range sw.votes {
			if v.nodes > 0 {
				parents++
			}
		}
		if parents > 1 && sw.levels > 0 && sw.above != nil {
			found = append(found, topology.Finding{Reason: ReasonTierConflict, Message: fmt.Sprintf("nodes name different switches above switch %s, %d in all: %s counts, because most nodes name it or were published below it",
				sw.name, parents, sw.above.value)})
		}
	}
	return found
}

// nameLoops names what labels say that would close a loop of switches.
func nameLoops(s *Site, loops []edge) []topology.Finding {
	var found []topology.Finding
	for _, e := range loops {
		if e.nodes > 0 && e.child.levels > 0 {
			found = append(found, topology.Finding{Reason: ReasonTierConflict, Message: fmt.Sprintf("%d nodes, such as %s, name switch %s above %s, but more nodes name %[3]s below %[4]s, and these count",
				e.nodes, s.Facts[e.first].Name, e.parent.value, e.child.value)})
		}
	}
	return found
}
