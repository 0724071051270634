package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// part is the blocks of one block topology.
type part struct {
	name string
	// set is the configured base block size, and published the published one. Each is 0 if there is
	// none.
	set, published int
	fabric         string
	blocks         []block
	// unnamed are the sizes of the site's domains without a node in Slurm.
	unnamed []int
}

// divide assigns each block to a block topology. A new block of no known fabric is left out if there
// are several fabrics.
func divide(s *site, blocks []block, unnamed []int, t tree) (parts []part, left leftOut) {
	whole := part{name: s.policy.kind(), set: s.policy.BaseBlockSize, published: s.prev.base, unnamed: unnamed}
	blocks, racks, left := racksOf(s, blocks, t)
	known := slices.DeleteFunc(slices.Clone(s.prev.topologies), func(t topology.Topology) bool { return len(t.Sizes) == 0 })
	if s.prev.elsewhere && !s.policy.OneTopology { // no partition names the topology of a topology.conf
		known = nil
	}
	groups, waiting := divideRacks(racks, known, &s.policy)
	for r, d := range waiting {
		left.add(blocks[r].nodes, ReasonHeld, fmt.Sprintf("its %s fits no published topology: the node waits until somebody approves the change of topology %s to %s (digest %s)", blocks[r].title(), d.From, d.To, d.Digest()))
	}
	for _, d := range groups {
		next := part{name: d.name, set: s.policy.BaseBlockSize, published: s.publishedBase(d.name), fabric: d.fabric, unnamed: unnamed}
		if s.policy.OneTopology {
			next.published = whole.published
		}
		switch {
		case d.published > 0:
			next.set = d.published
		case len(s.policy.SizeClasses) > 0:
			next.set = d.class
		}
		for _, r := range d.racks {
			b := blocks[r]
			if b.place = none; b.published != none && s.prev.blocks[b.published].topology == d.name {
				b.place = s.prev.blocks[b.published].place
			}
			next.blocks = append(next.blocks, b)
		}
		parts = append(parts, next)
	}
	if parts == nil {
		if len(s.policy.SizeClasses) > 0 && len(racks) > 0 {
			whole.set = classOf(s.policy.SizeClasses, racks[0].size)
		}
		whole.blocks = inPlaces(blocks)
		parts = []part{whole}
	}
	return parts, left
}

// racksOf returns the blocks that are divided, and the rack of each. Blocks of no known
// fabric get the only known one. If there are several, new ones are left out.
func racksOf(s *site, blocks []block, t tree) (kept []block, racks []rack, left leftOut) {
	fabrics := fabricsOf(blocks, t)
	known := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(fabrics))), func(f string) bool { return f == "" })
	kept, racks, left = make([]block, 0, len(blocks)), make([]rack, 0, len(blocks)), leftOut{}
	for i := range blocks {
		b := &blocks[i]
		r := rack{block: b.name, fabric: fabrics[i], size: s.most(b), nodes: len(b.nodes)}
		if b.published != none {
			published := &s.prev.blocks[b.published]
			r.published, r.before = published.topology, published.Size
		}
		switch {
		case r.fabric == "" && len(known) == 1:
			r.fabric = known[0]
		case r.fabric == "" && len(known) > 1 && r.published == "":
			left.add(b.nodes, ReasonNoFabric, fmt.Sprintf("nothing names the switches above its %s, and there are %d fabrics: no job runs in two of them", b.title(), len(known)))
			continue
		}
		kept, racks = append(kept, *b), append(racks, r)
	}
	return kept, racks, left
}

// inPlaces returns all blocks for one topology. They keep their places, whatever the published
// topology is called.
func inPlaces(blocks []block) []block {
	placed := slices.Clone(blocks)
	for i := range placed {
		placed[i].place = placed[i].published
	}
	return placed
}

// most returns the most nodes that a block's domain has had, those without a name in Slurm too.
func (s *site) most(b *block) int {
	n := max(len(b.nodes), b.domain)
	if b.published != none && !s.isDivided(b.published) {
		n = max(n, s.prev.blocks[b.published].Size)
	}
	return n
}

// fabricsOf names, beside the blocks, the root switch above most of a block's nodes,
// empty if none is known.
func fabricsOf(blocks []block, t tree) []string {
	fabrics, paths := make([]string, len(blocks)), topology.PathsAbove(t.switches)
	for i := range blocks {
		fabrics[i], _, _ = strings.Cut(strings.TrimPrefix(aboveLeaf(&blocks[i], t, paths), "/"), "/")
	}
	return fabrics
}
