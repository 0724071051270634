package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// arrange orders, sizes and writes the blocks of every topology. It says what is wrong too.
func arrange(parts []*part, old *published, policy *Policy) (topologies []topology.Topology, found problems, err error) {
	before := 0 // blocks of the topologies before
	for _, p := range parts {
		known, fresh := p.known()
		inOrder, mixed := p.order(known, fresh, policy)
		sizes, inSizes, err := p.sizes(inOrder, policy)
		if err != nil {
			return nil, nil, err
		}
		blocks := p.write(inOrder, before)
		found = slices.Concat(found, mixed, inSizes, adviseParents(known, fresh, sizes, policy))
		if len(blocks) == 0 {
			continue
		}
		before += len(blocks)
		topologies = append(topologies, topology.Topology{Name: p.name, Default: p.isDefault, Kind: topology.KindBlock,
			Fabric: cmp.Or(p.fabric, old.topology(p.name).Fabric), Sizes: sizes, Blocks: blocks})
		if !policy.TreeOnly {
			found = append(found, nameImpossible(policy, p.name, sizes, blocks)...)
		}
	}
	if apart := topology.Apart(topologies); apart != "" && !policy.TreeOnly {
		found.add("", ReasonTopologiesApart, apart)
	}
	return topologies, found, nil
}

// known returns the published blocks of a topology in their order, and the new ones by their parent domains.
func (p *part) known() (known, fresh []*domain) {
	nameParents(p.domains)
	for _, d := range p.domains {
		if d.position > 0 {
			known = append(known, d)
		} else {
			fresh = append(fresh, d)
		}
	}
	slices.SortFunc(known, func(a, b *domain) int { return cmp.Compare(a.position, b.position) })
	// Stable: blocks are in the order of their cliques.
	slices.SortStableFunc(fresh, func(a, b *domain) int { return strings.Compare(a.parent, b.parent) })
	return known, fresh
}

// order returns the blocks of a topology in their positions, nil for a position that is kept free. Published blocks keep
// their order, and new ones go after the last of their parent domain. With Policy.ParentBlocks every block has a
// position in a window of its parent domain.
func (p *part) order(known, fresh []*domain, policy *Policy) (blocks []*domain, found problems) {
	if policy.ParentBlocks == 0 {
		return merge(known, fresh), nil
	}
	blocks, found = putInWindows(known, fresh, policy.ParentBlocks)
	return blocks, append(found, nameOutgrown(p.domains, policy.ParentBlocks)...)
}

// merge puts each fresh block after the last known one of its parent, or at the
// end.
func merge(known, fresh []*domain) (blocks []*domain) {
	last := make(map[string]int, len(known))
	for i, d := range known {
		last[d.parent] = i
	}
	after := make([][]*domain, len(known)+1)
	for _, d := range fresh {
		at, ok := last[d.parent]
		if !ok || d.parent == "" {
			at = len(known)
		}
		after[at] = append(after[at], d)
	}
	for i, d := range known {
		blocks = append(append(blocks, d), after[i]...)
	}
	return append(blocks, after[len(known)]...)
}

// window is as many consecutive positions of blocks as Slurm aggregates to a parent
// domain.
type window struct {
	parent string // empty if no block names it
	free   []int  // indexes of blocks, ascending
}

// putInWindows returns the blocks in their positions. Published ones keep theirs. A
// new one goes into the first free position of its parent domain, or begins a window
// of it behind all others. The last window is whole too, because Slurm gives a
// job above the largest size whole aggregates only.
func putInWindows(known, fresh []*domain, size int) (blocks []*domain, found problems) {
	for _, d := range known {
		for len(blocks) < d.position-1 {
			blocks = append(blocks, nil)
		}
		blocks = append(blocks, d)
	}
	for len(blocks)%size != 0 {
		blocks = append(blocks, nil)
	}
	var windows []window
	for at := 0; at < len(blocks); at += size {
		w, mixed := readWindow(blocks[at:at+size], at)
		windows, found = append(windows, w), append(found, mixed...)
	}
	for _, d := range fresh {
		at := slices.IndexFunc(windows, func(w window) bool { return w.parent == d.parent && len(w.free) > 0 })
		if at < 0 {
			at = len(windows)
			windows = append(windows, window{parent: d.parent})
			for range size {
				windows[at].free = append(windows[at].free, len(blocks))
				blocks = append(blocks, nil)
			}
		}
		blocks[windows[at].free[0]] = d
		windows[at].free = windows[at].free[1:]
	}
	return blocks, found
}

// mixedParents is no parent's name.
const mixedParents = "\x00"

// readWindow finds whose a published window is, and which of its positions are free. begin is the index of its first
// block. A window that has blocks of two parents is nobody's, because known blocks do not move.
func readWindow(blocks []*domain, begin int) (w window, found problems) {
	var first *domain
	gone := ""
	for i, d := range blocks {
		switch {
		case d == nil:
			w.free = append(w.free, begin+i)
		case len(d.nodes) == 0:
			gone = cmp.Or(gone, d.parent)
		case d.parent == "": // it says nothing now, and is nobody's evidence
		case first == nil:
			first = d
		case d.parent != first.parent:
			found.add("", ReasonParentBlocks, fmt.Sprintf("Slurm aggregates block %s of %s with block %s of %s, because published blocks keep their places",
				first.name, first.parent, d.name, d.parent))
			return window{parent: mixedParents}, found
		}
	}
	if w.parent = gone; first != nil {
		w.parent = first.parent
	}
	return w, nil
}

// write returns the blocks of a topology as the plan has them. before is the number of
// blocks of the topologies before it.
func (p *part) write(inOrder []*domain, before int) []topology.Block {
	taken := make(map[string]bool, len(p.domains))
	for _, d := range p.domains {
		taken[d.name] = true
	}
	blocks := make([]topology.Block, len(inOrder))
	for at, d := range inOrder {
		if d == nil {
			blocks[at].Name = topology.SpareBlock(before+at, func(name string) bool { return taken[name] })
			continue
		}
		blocks[at] = topology.Block{Name: d.name, Nodes: slurmNames(d.nodes), Size: d.size, Clique: d.writtenClique()}
	}
	return blocks
}
