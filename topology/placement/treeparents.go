package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// fillLeaves puts every node below its leaf, if it has one, and counts for every switch the parents that its nodes name.
// A path that ends below the published switches of the node goes on with these.
func fillLeaves(nodes []*node, old *oldTree) {
	for _, n := range nodes {
		path, published := n.path, old.pathOf(n)
		if len(path) > 0 && len(published) > 0 && n.namedLeaf() == "" { // it stays in its leaf, and its labels count above it
			above := path[1:]
			countPath(n, above)
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
			path[0].nodes = append(path[0].nodes, n)
			countPath(n, path)
		}
	}
}

// countPath counts the votes of a node for the parents on a path.
func countPath(n *node, path []step) {
	for k := 1; k < len(path); k++ {
		below, v := path[k-1].knownSwitch, vote{child: path[k-1].knownSwitch, parent: path[k].knownSwitch, first: n}
		if path[k].gap {
			v.by = acrossGap
		}
		at := indexOrAdd(&below.votes, func(o vote) bool { return o.parent == v.parent && o.by == v.by }, v)
		below.votes[at].nodes++
	}
}

// complete adds to a node's path the switches that were published above its last
// switch, as far as the site still has these tiers.
func (old *oldTree) complete(path []step, published []*oldSwitch) []step {
	n := len(path)
	if n >= len(published) || n > 0 && path[n-1].old != published[n-1] {
		return path
	}
	path = slices.Grow(path, len(published)-n)
	for _, sw := range published[n:] {
		if !old.hasTier(sw) {
			break
		}
		path = append(path, step{knownSwitch: sw.now})
	}
	return path
}

// vote says that a switch is below a parent.
type vote struct {
	child, parent *knownSwitch
	other         bool // than the published parent
	by            evidence
	nodes         int   // that name both
	first         *node // of these nodes
}

// evidence says why a switch is below a parent, the best reason first.
type evidence int8

const (
	byNodes     evidence = iota // nodes name both
	byPublished                 // it was published there, and no node names a parent
	acrossGap                   // nodes name both, and not the tier between them
)

// chooseParents gives every switch the parent that most of its nodes name, the
// published one among equals, else the first. A switch whose nodes name none keeps
// the published one. Else it gets what its nodes name above a tier that they do not name.
// What would close a loop is not followed: what most nodes say goes first.
func chooseParents(all []*knownSwitch, old *oldTree) (loops []vote) {
	best := make([]vote, 0, len(all))
	for _, sw := range all {
		votes, published := sw.votes, (*knownSwitch)(nil)
		if sw.old != nil && len(sw.old.path) > 1 && old.hasTier(sw.old.path[1]) {
			published = sw.old.path[1].now
			votes = append(votes, vote{child: sw, parent: published, by: byPublished})
		}
		for _, v := range votes {
			if !slices.ContainsFunc(votes, func(o vote) bool { return o.by < v.by }) {
				v.other = v.parent != published
				best = append(best, v)
			}
		}
	}
	slices.SortFunc(best, func(a, b vote) int {
		order := cmp.Or(cmp.Compare(a.by, b.by), cmp.Compare(b.nodes, a.nodes))
		if order == 0 && a.other != b.other {
			if b.other {
				return -1
			}
			return 1
		}
		return cmp.Or(order, a.child.compare(b.child.switchKey), a.parent.compare(b.parent.switchKey))
	})
	for _, v := range best {
		if v.child.above != nil {
			continue
		}
		up := v.parent
		for up != nil && up != v.child {
			up = up.above
		}
		if up == v.child {
			loops = append(loops, v)
		} else {
			v.child.above = v.parent
		}
	}
	return loops
}

// nameConflicts names the switches whose nodes do not agree on the parent, and what nodes say that would close
// a loop of switches.
func nameConflicts(all []*knownSwitch, loops []vote) (found problems) {
	for _, sw := range all {
		parents := 0
		for _, v := range sw.votes {
			if v.by == byNodes {
				parents++
			}
		}
		if parents > 1 && sw.levels > 0 && sw.above != nil {
			found.add("", ReasonLabelConflict, fmt.Sprintf("nodes name different switches above switch %s, %d in all: %s counts, because most nodes name it or were published below it",
				sw.name, parents, sw.above.value))
		}
	}
	for _, v := range loops {
		if v.nodes > 0 && v.child.levels > 0 {
			found.add("", ReasonLabelConflict, fmt.Sprintf("%d nodes, such as %s, name switch %s above %s, but more nodes name %[3]s below %[4]s, and these count",
				v.nodes, v.first.Name, v.parent.value, v.child.value))
		}
	}
	return found
}
