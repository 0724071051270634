package tree

import (
	"cmp"
	"slices"
)

// publishedTree is the tree that was published. Its switches are known by their
// indices.
type publishedTree struct {
	switches []Switch
	leafOf   map[string]int // Slurm name -> leaf
	above    []int          // switch -> parent, or none
	tierOf   []int
	tiers    int // Site.Tiers
}

// MaxTiers bounds the way up, because a file that was edited may hold a loop.
const MaxTiers = 20

func readPublishedTree(switches []Switch, tiers int) publishedTree {
	t := publishedTree{switches: switches, leafOf: map[string]int{}, above: make([]int, len(switches)), tierOf: make([]int, len(switches)), tiers: tiers}
	byName := make(map[string]int, len(switches))
	for i := range switches {
		byName[switches[i].Name] = i
		t.above[i] = none
		for _, n := range switches[i].Nodes {
			t.leafOf[n] = i
		}
	}
	for i := range switches {
		for _, c := range switches[i].Children {
			if child, ok := byName[c]; ok {
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
	for sw := leaf; sw != none && len(path) < MaxTiers; sw = t.above[sw] {
		path = append(path, sw)
	}
	return path
}

// keeps reports whether the site still has the tier of a switch, as far as its
// policy says.
func (t *publishedTree) keeps(sw int) bool { return t.tiers == 0 || t.tierOf[sw] < t.tiers }

// leafInUse reports whether a switch is a leaf that has to stay even if it is empty.
func (t *publishedTree) leafInUse(s *Site, sw int) bool {
	return sw != none && len(t.switches[sw].Children) == 0 && s.InUse(t.switches[sw].Name)
}

// parentVotes is how many nodes put a switch below the parent.
type parentVotes struct{ parent, nodes int }

// votedSwitches is which parents the nodes of every switch say that it has.
type votedSwitches struct {
	knownSwitches
	leaves []int           // beside Site.Facts: index into switches, or none
	votes  [][]parentVotes // beside switches, and shorter: those behind have none
}

// countParents counts for every switch the parents that its nodes name.
func countParents(s *Site, known knownSwitches, published publishedTree) votedSwitches {
	v := votedSwitches{knownSwitches: known, leaves: make([]int, len(s.Facts))}
	last, lastNamed, lastPath := none, []int(nil), []int(nil) // of the node before
	for i, f := range s.Facts {
		path := v.paths[i]
		if leaf, ok := published.leafOf[f.SlurmName]; ok {
			if leaf != last || !slices.Equal(path, lastNamed) {
				last, lastNamed, lastPath = leaf, path, v.complete(published, path, published.path(leaf))
			}
			path = lastPath
		}
		if len(path) == 0 {
			v.leaves[i] = none
			continue
		}
		v.leaves[i] = path[0]
		for k := 1; k < len(path); k++ {
			v.add(path[k-1], path[k])
		}
	}
	for i := range published.switches {
		if published.leafInUse(s, i) {
			v.keep(published, i)
		}
	}
	return v
}

// complete adds to a node's path the switches that were published above its last
// switch, as far as the site still has these tiers.
func (v *votedSwitches) complete(published publishedTree, path, old []int) []int {
	n := len(path)
	if n >= len(old) || n > 0 && v.switches[path[n-1]].published != old[n-1] {
		return path
	}
	path = append(make([]int, 0, len(old)), path...)
	for k := n; k < len(old) && published.keeps(old[k]); k++ {
		path = append(path, v.keep(published, old[k]))
	}
	return path
}

// add counts one node that puts a switch below the parent.
func (v *votedSwitches) add(sw, parent int) {
	for len(v.votes) <= sw {
		v.votes = append(v.votes, nil)
	}
	for i := range v.votes[sw] {
		if v.votes[sw][i].parent == parent {
			v.votes[sw][i].nodes++
			return
		}
	}
	v.votes[sw] = append(v.votes[sw], parentVotes{parent, 1})
}

// settledSwitches are the switches with their parents.
type settledSwitches struct {
	votedSwitches
	parents []int // beside switches: index into them, or none
}

// settleParents gives every switch the parent that most of its nodes name, the
// published one among equals, else the first. A switch whose nodes name none keeps
// the published one.
func settleParents(voted votedSwitches, published publishedTree) settledSwitches {
	set := settledSwitches{votedSwitches: voted}
	for i := 0; i < len(set.switches); i++ { // keep adds to them
		var votes []parentVotes
		if i < len(set.votes) {
			votes = set.votes[i]
		}
		old := none
		if at := set.switches[i].published; at != none {
			if up := published.above[at]; up != none && published.keeps(up) && (len(votes) == 0 || set.ofPublished[up] != none) {
				old = set.keep(published, up)
			}
		}
		if len(votes) == 0 {
			set.parents = append(set.parents, old)
			continue
		}
		best := slices.MinFunc(votes, func(a, b parentVotes) int {
			if n := cmp.Compare(b.nodes, a.nodes); n != 0 || a.parent == b.parent {
				return n
			}
			switch old {
			case a.parent:
				return -1
			case b.parent:
				return 1
			}
			return set.switches[a.parent].compare(set.switches[b.parent].switchKey)
		})
		set.parents = append(set.parents, best.parent)
	}
	return set
}
