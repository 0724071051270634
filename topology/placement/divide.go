package placement

import (
	"fmt"
	"maps"
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

// mostDivisions is how often the blocks are divided, if the division does not rest before.
const mostDivisions = 8

// divideUntilRest divides the blocks and makes the topologies. A division compares new blocks with the published
// ones, and once it is published all its blocks are. So it is made again from its own result until it stays the
// same. Otherwise the next plan of the same facts would be another one.
func divideUntilRest(s *site, blocks []block, unnamed []int, t tree) (made madeParts, found problems, err error) {
	for range mostDivisions {
		parts, unsited := divide(s, blocks, unnamed, t)
		if made, found, err = makeParts(s, parts, t); err != nil {
			return made, nil, err
		}
		rests := s.rests(&made, unsited)
		maps.Copy(made.leftOut, unsited)
		if rests {
			break
		}
		s, blocks = s.continued(&made, blocks)
	}
	return made, found, nil
}

// rests reports whether a division gives the same once it is published. It does if it is the published one, if
// one topology takes all blocks, and if blocks are not published.
func (s *site) rests(made *madeParts, unsited leftOut) bool {
	if !s.policy.Divide || s.policy.TreeOnly || len(s.prev.topologies) <= 1 && len(made.topologies) <= 1 && len(made.leftOut)+len(unsited) == 0 {
		return true
	}
	if len(made.topologies) != len(s.prev.topologies) {
		return false
	}
	next := 0
	for i := range made.topologies {
		is, old := &made.topologies[i], &s.prev.topologies[i]
		if is.Name != old.Name || is.Fabric != old.Fabric || !slices.Equal(is.Sizes, old.Sizes) || len(is.Blocks) != len(old.Blocks) {
			return false
		}
		for k := range is.Blocks {
			if b := &s.prev.blocks[next+k]; b.Name != is.Blocks[k].Name || b.Size != is.Blocks[k].Size {
				return false
			}
		}
		next += len(is.Blocks)
	}
	return true
}

// continued returns the site and the blocks as they are once a division is published.
func (s *site) continued(made *madeParts, blocks []block) (*site, []block) {
	next := *s
	next.follows = nil
	next.prev.topologies, next.prev.blocks = made.topologies, nil
	next.prev.base = (&topology.Plan{Topologies: made.topologies}).BaseBlockSize()
	at := make(map[string]int)
	for i := range made.topologies {
		is := &made.topologies[i]
		if is.Default && !s.policy.OneTopology {
			next.prev.defaultName = is.Name
		}
		for k := range is.Blocks {
			at[is.Blocks[k].Name] = len(next.prev.blocks)
			next.prev.blocks = append(next.prev.blocks, publishedBlock{&is.Blocks[k], is.Name, k})
		}
	}
	kept := make([]block, 0, len(blocks))
	for _, b := range blocks {
		published, is := at[b.name]
		if b.published = none; is {
			b.published = published
		} else if len(b.nodes) == 0 {
			continue
		}
		kept = append(kept, b)
	}
	return &next, kept
}

// divide assigns each block to a block topology. A new block of no known fabric is left out if there
// are several fabrics.
func divide(s *site, blocks []block, unnamed []int, t tree) (parts []part, left leftOut) {
	whole := part{name: s.policy.kind(), set: s.policy.BaseBlockSize, published: s.prev.base, unnamed: unnamed}
	if !s.policy.Divide {
		whole.blocks = inPlaces(blocks)
		return []part{whole}, nil
	}
	blocks, racks, left := racksOf(s, blocks, t)
	known := slices.DeleteFunc(slices.Clone(s.prev.topologies), func(t topology.Topology) bool { return len(t.Sizes) == 0 })
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
		case !s.policy.ShortBlocks: // the smallest rack counts, whatever its class
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
		if len(s.policy.SizeClasses) > 0 && len(racks) > 0 && s.policy.ShortBlocks {
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
		r := rack{fabric: fabrics[i], size: rackSize(s, b), nodes: len(b.nodes)}
		if b.published != none {
			published := &s.prev.blocks[b.published]
			r.published, r.base, r.before = published.topology, s.baseOf(b.published), published.Size
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
	n := max(b.size(), b.domain)
	if b.published != none && !s.isDivided(b.published) {
		n = max(n, s.prev.blocks[b.published].Size)
	}
	return n
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
func fabricsOf(blocks []block, t tree) []string {
	fabrics, paths := make([]string, len(blocks)), topology.PathsAbove(t.switches)
	for i := range blocks {
		fabrics[i], _, _ = strings.Cut(strings.TrimPrefix(aboveLeaf(&blocks[i], t, paths), "/"), "/")
	}
	return fabrics
}
