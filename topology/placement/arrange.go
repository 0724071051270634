package placement

import (
	"cmp"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// arrange orders, sizes and writes the blocks of every topology. It says what is wrong too.
func arrange(parts []*part, old *published, policy *Policy) (topologies []topology.Topology, found problems, err error) {
	before := 0 // blocks of the topologies before
	for _, p := range parts {
		known, fresh := p.known()
		places, inOrder := p.order(known, fresh, policy)
		sizes, inSizes, err := p.sizes(places, policy)
		if err != nil {
			return nil, nil, err
		}
		blocks := p.write(places, before)
		found = slices.Concat(found, inOrder, inSizes, adviseParents(known, fresh, sizes, policy))
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

// write returns the blocks of a topology in their places. before is the number of
// blocks of the topologies before it.
func (p *part) write(places []*domain, before int) []topology.Block {
	taken := make(map[string]bool, len(p.domains))
	for _, d := range p.domains {
		taken[d.name] = true
	}
	blocks := make([]topology.Block, len(places))
	for at, d := range places {
		if d == nil {
			blocks[at].Name = topology.SpareBlock(before+at, func(name string) bool { return taken[name] })
			continue
		}
		blocks[at] = topology.Block{Name: d.name, Nodes: slurmNames(d.nodes), Size: d.size, Clique: d.writtenClique()}
	}
	return blocks
}
