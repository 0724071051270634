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
	leafOf   map[string]int // Slurm name -> leaf
	above    []int          // switch -> parent, or none
	tierOf   []int
	tiers    int // Site.Tiers
}

func readPublished(switches []topology.Switch, tiers int) publishedTree {
	t := publishedTree{switches: switches, byName: map[string]int{}, leafOf: map[string]int{}, tiers: tiers,
		above: slices.Repeat([]int{none}, len(switches)), tierOf: make([]int, len(switches))}
	for i := range switches {
		t.byName[switches[i].Name] = i
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
		found = append(found, topology.Finding{Reason: ReasonForgottenInUse, Message: fmt.Sprintf("switch %s is to be forgotten, but it %s: it stays", sw.Name, why)})
	}
	return found
}

// vote is how many nodes put a switch below the parent.
type vote struct{ parent, nodes int }

// countVotes finds the leaf of every node, and counts for every switch the parents
// that its nodes name.
func countVotes(s *Site, set switches, published publishedTree) (leaves []int, votes [][]vote) {
	leaves, votes = make([]int, len(s.Facts)), make([][]vote, len(set.keys))
	last, lastNamed, lastPath := none, []int(nil), []int(nil) // of the node before
	for i, f := range s.Facts {
		path := set.paths[i]
		if leaf, ok := published.leafOf[f.SlurmName]; ok {
			if leaf != last || !slices.Equal(path, lastNamed) {
				last, lastNamed, lastPath = leaf, path, set.complete(published, path, published.path(leaf))
			}
			path = lastPath
		}
		if len(path) == 0 {
			leaves[i] = none
			continue
		}
		leaves[i] = path[0]
		for k, parent := range path[1:] {
			below := path[k]
			at := slices.IndexFunc(votes[below], func(v vote) bool { return v.parent == parent })
			if at < 0 {
				at = len(votes[below])
				votes[below] = append(votes[below], vote{parent: parent})
			}
			votes[below][at].nodes++
		}
	}
	return leaves, votes
}

// complete adds to a node's path the switches that were published above its last
// switch, as far as the site still has these tiers.
func (set *switches) complete(published publishedTree, path, old []int) []int {
	n := len(path)
	if n >= len(old) || n > 0 && set.published[path[n-1]] != old[n-1] {
		return path
	}
	path = append(make([]int, 0, len(old)), path...)
	for k := n; k < len(old) && published.keeps(old[k]); k++ {
		path = append(path, set.ofPublished[old[k]])
	}
	return path
}

// settleParents gives every switch the parent that most of its nodes name, the
// published one among equals, else the first. A switch whose nodes name none keeps
// the published one. The result is beside the switches: an index into them, or none.
func settleParents(set switches, votes [][]vote, published publishedTree) []int {
	parents := make([]int, len(set.keys))
	for i := range parents {
		parents[i] = none
		if at := set.published[i]; at != none {
			if up := published.above[at]; up != none && published.keeps(up) {
				parents[i] = set.ofPublished[up]
			}
		}
		if len(votes[i]) == 0 {
			continue
		}
		old := parents[i]
		parents[i] = slices.MinFunc(votes[i], func(a, b vote) int {
			switch {
			case a.nodes != b.nodes:
				return cmp.Compare(b.nodes, a.nodes)
			case a.parent == old:
				return -1
			case b.parent == old:
				return 1
			}
			return set.keys[a.parent].compare(set.keys[b.parent])
		}).parent
	}
	return parents
}

// nameConflicts names the switches of the tree whose nodes do not agree on the parent.
func nameConflicts(set switches, votes [][]vote, parents []int, called []string) []topology.Finding {
	var found []topology.Finding
	for i := range votes {
		if len(votes[i]) > 1 && called[i] != "" {
			found = append(found, topology.Finding{Reason: ReasonTierConflict, Message: fmt.Sprintf("nodes name other parents for switch %s, %d in all: %s is followed, which most of them name or were published below",
				called[i], len(votes[i]), set.keys[parents[i]].value)})
		}
	}
	return found
}
