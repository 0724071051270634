package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology/placement/names"
	"github.com/quoin-hpc/quoin/topology/placement/tree"
)

// ordering is the places of the plan's blocks: indices into sizing.blocks, none for
// a place that is kept free.
type ordering []int

// orderBlocks keeps published blocks in their order and puts new ones after the
// last of their parent domain. With Policy.ParentBlocks every block has a place in
// a window of its parent domain.
func orderBlocks(s *site, z sizing, t tree.Tree) (ordering, problems) {
	parents := parentDomains(z.blocks, t)
	var known, fresh []int
	for i := range z.blocks {
		if z.blocks[i].published != none {
			known = append(known, i)
		} else {
			fresh = append(fresh, i)
		}
	}
	slices.SortFunc(known, func(a, b int) int { return cmp.Compare(z.blocks[a].published, z.blocks[b].published) })
	// Stable: blocks are in the order of their cliques.
	slices.SortStableFunc(fresh, func(a, b int) int { return strings.Compare(parents[a], parents[b]) })
	if s.policy.ParentBlocks > 0 {
		places, found := placeInWindows(z.blocks, known, fresh, parents, s.policy.ParentBlocks)
		return places, append(found, nameOutgrown(z.blocks, parents, s.policy.ParentBlocks)...)
	}
	return merge(known, fresh, parents), nil
}

// merge puts each fresh block after the last known one of its parent, or at the
// end.
func merge(known, fresh []int, parents []string) ordering {
	last := make(map[string]int, len(known))
	for i, b := range known {
		last[parents[b]] = i
	}
	after := make([][]int, len(known)+1)
	for _, b := range fresh {
		at, ok := last[parents[b]]
		if !ok || parents[b] == "" {
			at = len(known)
		}
		after[at] = append(after[at], b)
	}
	order := make(ordering, 0, len(known)+len(fresh))
	for i, b := range known {
		order = append(order, b)
		order = append(order, after[i]...)
	}
	return append(order, after[len(known)]...)
}

// window is as many consecutive places for blocks as Slurm aggregates to a parent
// domain.
type window struct {
	parent string // empty if no block names it
	free   []int  // places, ascending
}

// placeInWindows returns the blocks in their places. Published ones keep theirs. A
// new one goes into the first free place of its parent domain, or begins a window
// of it behind all others.
func placeInWindows(blocks []block, known, fresh []int, parents []string, size int) (ordering, problems) {
	var places ordering
	for _, b := range known {
		for len(places) < blocks[b].published {
			places = append(places, none)
		}
		places = append(places, b)
	}
	for len(places)%size != 0 {
		places = append(places, none)
	}
	var windows []window
	var found problems
	for at := 0; at < len(places); at += size {
		w, mixed := readWindow(blocks, places[at:at+size], at, parents)
		windows, found = append(windows, w), append(found, mixed...)
	}
	for _, b := range fresh {
		at := slices.IndexFunc(windows, func(w window) bool { return w.parent == parents[b] && len(w.free) > 0 })
		if at < 0 {
			at = len(windows)
			windows = append(windows, window{parent: parents[b]})
			for range size {
				windows[at].free = append(windows[at].free, len(places))
				places = append(places, none)
			}
		}
		places[windows[at].free[0]] = b
		windows[at].free = windows[at].free[1:]
	}
	for len(places) > 0 && places[len(places)-1] == none {
		places = places[:len(places)-1]
	}
	return places, found
}

// mixedParents is no parent's name.
const mixedParents = "\x00"

// readWindow finds whose a published window is that begins at a place, and which of
// its places are free. A window that has blocks of two parents is nobody's, because
// known blocks do not move.
func readWindow(blocks []block, places ordering, at int, parents []string) (window, problems) {
	var w window
	parent, first, gone := "", none, ""
	for i, b := range places {
		switch {
		case b == none:
			w.free = append(w.free, at+i)
		case len(blocks[b].nodes) == 0:
			gone = cmp.Or(gone, parents[b])
		case parents[b] == "": // it says nothing now, and is nobody's evidence
		case first == none:
			parent, first = parents[b], b
		case parents[b] != parent:
			var found problems
			found.add("", ReasonParentsMixed, fmt.Sprintf("Slurm aggregates block %s of %s with block %s of %s, because published blocks keep their places",
				blocks[first].name, parent, blocks[b].name, parents[b]))
			return window{parent: mixedParents}, found
		}
	}
	if w.parent = parent; first == none {
		w.parent = gone
	}
	return w, nil
}

// parentDomains names, beside the blocks, what the neighbours of a block share:
// the switches above the leaves of most of its nodes, else an NVLink cluster of
// several cliques; empty if neither is known.
func parentDomains(blocks []block, t tree.Tree) []string {
	clusters := make(map[string]int)
	for i := range blocks {
		clusters[clusterOf(&blocks[i])]++
	}
	parents, paths := make([]string, len(blocks)), pathsAbove(t.Switches)
	for i := range blocks {
		above := aboveLeaf(&blocks[i], t, paths)
		switch cluster := clusterOf(&blocks[i]); {
		case above != "":
			parents[i] = "switch " + above[1:]
		case cluster != "" && clusters[cluster] > 1:
			parents[i] = "NVLink cluster " + cluster
		}
	}
	return parents
}

// clusterOf names the NVLink cluster that a block is a clique of.
func clusterOf(b *block) string { return names.Cluster(cmp.Or(b.names[0], b.name)) }

// aboveLeaf names the switches above the leaves of most of a block's nodes, from
// the top. The tree knows of silent nodes what was published.
func aboveLeaf(b *block, t tree.Tree, paths map[string]string) string {
	votes := make(map[string]int)
	for _, i := range b.nodes {
		if path := paths[t.Leaf(i)]; path != "" {
			votes[path]++
		}
	}
	best := ""
	for path, n := range votes {
		if n > votes[best] || n == votes[best] && path < best {
			best = path
		}
	}
	return best
}

// nameOutgrown names the parent domains that have more blocks than their size, and
// how many blocks have none.
func nameOutgrown(blocks []block, parents []string, size int) problems {
	var found problems
	counts := make(map[string]int)
	example := ""
	for i := range blocks {
		if len(blocks[i].nodes) == 0 {
			continue
		}
		if counts[parents[i]]++; parents[i] == "" {
			example = cmp.Or(example, blocks[i].name)
		}
	}
	for parent, n := range counts {
		switch {
		case parent == "":
			found.add("", ReasonNoParent, fmt.Sprintf("%d blocks, such as %s, have no known switch above the leaf: Slurm aggregates them in the order in which they came", n, example))
		case n > size:
			found.add("", ReasonAboveParent, fmt.Sprintf("%s has %d blocks, more than %d: Slurm aggregates them to several; set the number of blocks in a parent domain higher", parent, n, size))
		}
	}
	return found
}

// WithoutParent returns the new blocks without a known switch above the leaf, and
// whether other blocks have one. prev may be nil.
func (p *Plan) WithoutParent(prev *Previous) (blocks []Block, others bool) {
	if prev == nil {
		prev = &Previous{}
	}
	published := make(map[string]bool)
	for i := range prev.Blocks {
		published[prev.Blocks[i].Name] = true
	}
	above := parentsOf(p.Switches)
	sited := make(map[string]bool)
	for i := range p.Placements {
		if pl := &p.Placements[i]; above[pl.Switch] != "" {
			sited[pl.Block] = true
		}
	}
	for i := range p.Blocks {
		if b := &p.Blocks[i]; len(b.Nodes) > 0 && !published[b.Name] && !sited[b.Name] {
			blocks = append(blocks, *b)
		}
	}
	return blocks, len(above) > 0
}
