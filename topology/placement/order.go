package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ordering is the places of the plan's blocks: indices of blocks, none for
// a place that is kept free.
type ordering []int

// orderBlocks keeps published blocks in their order and puts new ones after the
// last of their parent domain. With Policy.ParentBlocks every block has a place in
// a window of its parent domain.
func orderBlocks(s *site, blocks []block, sizes []int, t tree) (ordering, problems) {
	parents := parentDomains(blocks, t)
	var known, fresh []int
	for i := range blocks {
		if blocks[i].place != none {
			known = append(known, i)
		} else {
			fresh = append(fresh, i)
		}
	}
	slices.SortFunc(known, func(a, b int) int { return cmp.Compare(blocks[a].place, blocks[b].place) })
	// Stable: blocks are in the order of their cliques.
	slices.SortStableFunc(fresh, func(a, b int) int { return strings.Compare(parents[a], parents[b]) })
	if s.policy.ParentBlocks > 0 {
		places, found := placeInWindows(blocks, known, fresh, parents, s.policy.ParentBlocks)
		return places, append(found, nameOutgrown(blocks, parents, s.policy.ParentBlocks)...)
	}
	return merge(known, fresh, parents), adviseParents(s, blocks, sizes, known, fresh, parents)
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
// of it behind all others. The last window is whole too, because Slurm gives a
// job above the largest size whole aggregates only.
func placeInWindows(blocks []block, known, fresh []int, parents []string, size int) (ordering, problems) {
	var places ordering
	for _, b := range known {
		for len(places) < blocks[b].place {
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
