package tree

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// publishedTree is the tree that was published. Its switches are known by their
// indices.
type publishedTree struct {
	switches []topology.Switch
	byName   map[string]int
	byValue  map[string][]int // what nodes call a switch -> switches
	leafOf   map[string]int   // Slurm name -> leaf
	above    []int            // switch -> parent, or none
	tierOf   []int
	tiers    int // Site.Tiers
	// rootOf is the root that each switch was put below, by name (topology.Switch.Joined).
	// Otherwise the tree is as labels named it.
	rootOf map[string]string
}

func readPublished(switches []topology.Switch, tiers int) publishedTree {
	rootOf := map[string]string{}
	for i := range switches {
		if switches[i].Joined {
			rootOf[switches[i].Name] = ""
		}
	}
	for i := range switches {
		for _, c := range switches[i].Children {
			if _, joined := rootOf[c]; joined {
				rootOf[c] = switches[i].Name
			}
		}
	}
	switches = topology.NamedSwitches(switches)
	t := publishedTree{rootOf: rootOf, switches: switches, byName: make(map[string]int, len(switches)), byValue: map[string][]int{}, leafOf: map[string]int{}, tiers: tiers,
		above: slices.Repeat([]int{none}, len(switches)), tierOf: make([]int, len(switches))}
	for i := range switches {
		t.byName[switches[i].Name] = i
		t.byValue[switches[i].Value] = append(t.byValue[switches[i].Value], i)
		for _, n := range switches[i].Nodes {
			t.leafOf[n] = i
		}
	}
	for i := range switches {
		for _, c := range switches[i].Children {
			if child, ok := t.byName[c]; ok {
				t.above[child] = i
			}
		}
	}
	for i := range switches {
		if len(switches[i].Children) == 0 {
			for tier, sw := range t.path(i) {
				t.tierOf[sw] = max(t.tierOf[sw], tier)
			}
		}
	}
	return t
}

// byValueOf returns the switches that nodes called as they call a switch now.
func (t *publishedTree) byValueOf(key switchKey) []int { return t.byValue[key.value] }

// byNameOf returns the switches that have one of the names of a switch, the best name first.
func (t *publishedTree) byNameOf(key switchKey) (found []int) {
	for _, name := range topology.SwitchNames(key.tier, key.value) {
		if at, ok := t.byName[name]; ok {
			found = append(found, at)
		}
	}
	return found
}

// path returns the switches from a leaf to its root.
func (t *publishedTree) path(leaf int) []int {
	var path []int
	for sw := leaf; sw != none && len(path) < topology.MaxTiers; sw = t.above[sw] {
		path = append(path, sw)
	}
	return path
}

// keeps reports whether the site still has the tier of a switch, as far as its
// policy says.
func (t *publishedTree) keeps(sw int) bool { return t.tiers == 0 || t.tierOf[sw] < t.tiers }

// staysEmpty reports whether a switch is a leaf that stays even if it is empty.
func (t *publishedTree) staysEmpty(s *Site, sw int, renamed map[int]bool) bool {
	switch {
	case sw == none || len(t.switches[sw].Children) > 0:
		return false
	case s.InUse(t.switches[sw].Name):
		return true
	}
	return s.EmptyLeaves && !slices.Contains(s.Forget, t.switches[sw].Name) &&
		!slices.ContainsFunc(t.path(sw), func(at int) bool { return renamed[at] })
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
	parent int
	// nodes name both, and nothing is missing between them. across name a further switch
	// above the parent's place: a tier between them is not known.
	nodes, across int
	first         int // the first of the nodes
}

// countVotes finds the leaf of every node, and counts for every switch the parents
// that its nodes name.
func countVotes(s *Site, set switches, published publishedTree) (leaves []int, votes [][]vote) {
	leaves, votes = make([]int, len(s.Facts)), make([][]vote, len(set.keys))
	add := func(node int, path []step) {
		for k := 1; k < len(path); k++ {
			below, up, gap := path[k-1].sw, int(path[k].sw), path[k].gap
			at := slices.IndexFunc(votes[below], func(v vote) bool { return v.parent == up })
			if at < 0 {
				at = len(votes[below])
				votes[below] = append(votes[below], vote{parent: up, first: node})
			}
			if gap {
				votes[below][at].across++
			} else {
				votes[below][at].nodes++
			}
		}
	}
	last, old := none, []int(nil) // the published leaf of the node before, and the switches above it
	lastNamed, lastPath := []step(nil), []step(nil)
	for i, f := range s.Facts {
		path := set.paths[i]
		leaf, isPublished := published.leafOf[f.SlurmName]
		if isPublished && leaf != last {
			last, old = leaf, published.path(leaf)
			lastNamed, lastPath = nil, set.complete(published, nil, old)
		}
		if isPublished && set.noLeaf[i] { // it stays in its leaf, and its labels count above it
			named := path[1:]
			add(i, named)
			path = set.complete(published, nil, old)
			if at := slices.IndexFunc(path, func(p step) bool { return slices.ContainsFunc(named, func(n step) bool { return n.sw == p.sw }) }); at >= 0 {
				path = path[:at+1]
			}
		} else if isPublished {
			if !slices.Equal(path, lastNamed) {
				lastNamed, lastPath = path, set.complete(published, path, old)
			}
			path = lastPath
		}
		if len(path) == 0 {
			leaves[i] = none
			continue
		}
		leaves[i] = int(path[0].sw)
		add(i, path)
	}
	return leaves, votes
}

// complete adds to a node's path the switches that were published above its last
// switch, as far as the site still has these tiers.
func (set *switches) complete(published publishedTree, path []step, old []int) []step {
	n := len(path)
	if n >= len(old) || n > 0 && set.published[path[n-1].sw] != old[n-1] {
		return path
	}
	path = append(make([]step, 0, len(old)), path...)
	for k := n; k < len(old) && published.keeps(old[k]); k++ {
		path = append(path, step{sw: int32(set.ofPublished[old[k]])})
	}
	return path
}

// edge puts a switch below a parent.
type edge struct {
	child, parent int
	// by is how far what says so counts.
	by    evidence
	nodes int // that name both
	old   bool
	first int // the first of the nodes, or none
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
// What would close a loop is not followed: what most nodes say goes first. The result is
// beside the switches: an index into them, or none.
func settleParents(set switches, votes [][]vote, published publishedTree) (parents []int, loops []edge) {
	edges := make([]edge, 0, len(set.keys))
	for i := range set.keys {
		old := none
		if at := set.published[i]; at != none {
			if up := published.above[at]; up != none && published.keeps(up) {
				old = set.ofPublished[up]
			}
		}
		by := byNodes
		switch named := slices.ContainsFunc(votes[i], func(v vote) bool { return v.nodes > 0 }); {
		case !named && old != none:
			edges = append(edges, edge{i, old, byPublished, 0, true, none})
			continue
		case !named:
			by = acrossGap
		}
		for _, v := range votes[i] {
			n := v.nodes
			if by == acrossGap {
				n = v.across
			}
			if n > 0 {
				edges = append(edges, edge{i, v.parent, by, n, v.parent == old, v.first})
			}
		}
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
		return cmp.Or(set.keys[a.child].compare(set.keys[b.child]), set.keys[a.parent].compare(set.keys[b.parent]))
	})
	parents = slices.Repeat([]int{none}, len(set.keys))
	for _, e := range edges {
		if parents[e.child] != none {
			continue
		}
		up := e.parent
		for up != none && up != e.child {
			up = parents[up]
		}
		if up == e.child {
			loops = append(loops, e)
		} else {
			parents[e.child] = e.parent
		}
	}
	return parents, loops
}

// nameConflicts names the switches of the tree whose nodes do not agree on the parent.
func nameConflicts(set switches, votes [][]vote, parents []int, called []string) []topology.Finding {
	var found []topology.Finding
	for i := range votes {
		named := 0
		for _, v := range votes[i] {
			if v.nodes > 0 {
				named++
			}
		}
		if named > 1 && called[i] != "" && parents[i] != none {
			found = append(found, topology.Finding{Reason: ReasonTierConflict, Message: fmt.Sprintf("nodes name different switches above switch %s, %d in all: %s counts, because most nodes name it or were published below it",
				called[i], named, set.keys[parents[i]].value)})
		}
	}
	return found
}

// nameLoops names what labels say that would close a loop of switches.
func nameLoops(s *Site, set switches, loops []edge, called []string) []topology.Finding {
	var found []topology.Finding
	for _, e := range loops {
		if e.nodes > 0 && called[e.child] != "" {
			found = append(found, topology.Finding{Reason: ReasonTierConflict, Message: fmt.Sprintf("%d nodes, such as %s, name switch %s above %s, but more nodes name %[3]s below %[4]s, and these count",
				e.nodes, s.Facts[e.first].Name, set.keys[e.parent].value, set.keys[e.child].value)})
		}
	}
	return found
}
