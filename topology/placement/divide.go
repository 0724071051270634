package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement/division"
	"github.com/quoin-hpc/quoin/topology/placement/tree"
)

// part is the blocks of one block topology.
type part struct {
	name string
	// base is the published or configured base block size. 0 lets the blocks choose it.
	base   int
	fabric string
	blocks []block
}

// divide gives each of its own blocks a topology. A new block of no known fabric is left out if there
// are several fabrics.
func divide(s *site, blocks []block, t tree.Tree) (parts []part, leftOut map[int]verdict) {
	whole := part{name: s.kind(), base: cmp.Or(s.policy.BaseBlockSize, s.prev.BaseBlockSize)}
	if !s.policy.Divide {
		whole.takeAll(blocks)
		return []part{whole}, nil
	}
	blocks, racks, leftOut := racksOf(s, blocks, t)
	var published []division.Topology
	for i := range s.prev.Topologies {
		if t := &s.prev.Topologies[i]; len(t.BlockSizes) > 0 {
			published = append(published, division.Topology{Name: t.Name, Fabric: t.Fabric, Base: t.BlockSizes[0]})
		}
	}
	p := &s.policy
	for _, d := range division.Make(racks, published, division.Rules{Kind: s.kind(), SizeClasses: p.SizeClasses, Base: p.BaseBlockSize, OneClass: p.ByLeaf, OneTopology: p.OneTopology}) {
		next := part{name: d.Name, base: d.Base, fabric: d.Fabric}
		if !p.ShortBlocks {
			next.base = whole.base // the smallest rack of the class
		}
		mine := make([]block, len(d.Racks))
		for i, r := range d.Racks {
			mine[i] = blocks[r]
		}
		next.take(s, mine)
		parts = append(parts, next)
	}
	if parts == nil {
		whole.takeAll(blocks)
		parts = []part{whole}
	}
	return parts, leftOut
}

// racksOf returns what divides its own blocks. Blocks of no known fabric get the only known
// one. If there are several, new ones are left out.
func racksOf(s *site, own []block, t tree.Tree) (kept []block, racks []division.Rack, leftOut map[int]verdict) {
	fabrics := fabricsOf(own, t)
	known := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(fabrics))), func(f string) bool { return f == "" })
	z := sizing{leftOut: map[int]verdict{}}
	kept, racks = own[:0], make([]division.Rack, 0, len(own))
	for i := range own {
		b := &own[i]
		r := division.Rack{Fabric: fabrics[i], Size: rackSize(s, b), Nodes: len(b.nodes)}
		if b.published != none {
			r.Published, r.Base = s.prev.Blocks[b.published].Topology, s.baseOf(b.published)
		}
		switch {
		case r.Fabric == "" && len(known) == 1:
			r.Fabric = known[0]
		case r.Fabric == "" && len(known) > 1 && r.Published == "":
			z.leaveOut(b.nodes, ReasonNoFabric, fmt.Sprintf("nothing names the switches above its %s, and there are %d fabrics, which no job may join", b.title(), len(known)))
			continue
		}
		kept, racks = append(kept, *b), append(racks, r)
	}
	return kept, racks, z.leftOut
}

// take gives the part its own blocks. A block that was published in the part's topology
// keeps its place there.
func (p *part) take(s *site, blocks []block) {
	p.blocks = blocks
	for i := range p.blocks {
		b := &p.blocks[i]
		if b.place = none; b.published != none && s.prev.Blocks[b.published].Topology == p.name {
			b.place = s.places[b.published]
		}
	}
}

// takeAll gives the part all blocks for its own. They keep their places, whatever the published
// topology is called.
func (p *part) takeAll(blocks []block) {
	p.blocks = blocks
	for i := range p.blocks {
		p.blocks[i].place = p.blocks[i].published
	}
}

// kind is the name of the topology if there is one only.
func (s *site) kind() string {
	if s.policy.ByLeaf {
		return topology.LeafTopology
	}
	return topology.NVLinkTopology
}

// most returns the most nodes that a block has had.
func (s *site) most(b *block) int {
	if b.published == none {
		return b.size()
	}
	return max(b.size(), s.prev.Blocks[b.published].Size)
}

// rackSize returns the size by which a block belongs to a class. A published block counts
// as a whole rack of its topology: racks that are in one topology stay there until
// people configure classes. Configured classes count for what is there.
func rackSize(s *site, b *block) int {
	n := s.most(b)
	if b.published == none || len(s.policy.SizeClasses) > 0 {
		return n
	}
	return max(n, s.baseOf(b.published))
}

// fabricsOf names, beside the blocks, the root switch above most of a block's nodes,
// empty if none is known.
func fabricsOf(blocks []block, t tree.Tree) []string {
	fabrics, paths := make([]string, len(blocks)), topology.PathsAbove(t.Switches)
	for i := range blocks {
		fabrics[i], _, _ = strings.Cut(strings.TrimPrefix(aboveLeaf(&blocks[i], t, paths), "/"), "/")
	}
	return fabrics
}
