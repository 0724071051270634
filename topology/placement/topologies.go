package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/topology/placement/tree"
)

// Topology is one block topology of a plan. Block.Topology names it.
type Topology struct {
	Name string `json:"name"`
	// Fabric is the root switch above its racks, empty if it is not known.
	Fabric string `json:"fabric,omitempty"`
	// BlockSizes are Slurm's: the base first.
	BlockSizes []int `json:"blockSizes"`
}

// BaseOf returns the base block size of the topology of a block.
func (p *Plan) BaseOf(b *Block) int {
	for i := range p.Topologies {
		if t := &p.Topologies[i]; t.Name == b.Topology && len(t.BlockSizes) > 0 {
			return t.BlockSizes[0]
		}
	}
	return p.BaseBlockSize
}

// Fabrics are the fabrics of the block topologies.
func (p *Plan) Fabrics() []string {
	var fabrics []string
	for i := range p.Topologies {
		if f := p.Topologies[i].Fabric; f != "" && !slices.Contains(fabrics, f) {
			fabrics = append(fabrics, f)
		}
	}
	return fabrics
}

// addParts sizes, orders and writes the blocks of every topology. It returns all blocks
// together, and what is wrong.
func (p *Plan) addParts(s *site, parts []part, t tree.Tree) (sizing, problems, error) {
	all := sizing{leftOut: map[int]verdict{}}
	most := heaviest(s, parts)
	var found problems
	if s.policy.OneTopology {
		var kept part
		kept, found = all.leaveOutOthers(s, parts, most)
		parts, most = []part{kept}, 0
	}
	for i := range parts {
		z, inSizes, err := sizeBlocks(s, &parts[i])
		if err != nil {
			return all, nil, err
		}
		order, inOrder := orderBlocks(s, z, t)
		blocks := writeBlocks(s, z, order, len(p.Blocks))
		found = append(append(found, inSizes...), inOrder...)
		maps.Copy(all.leftOut, z.leftOut)
		all.blocks = joined(all.blocks, z.blocks)
		if len(blocks) == 0 {
			continue
		}
		for k := range blocks {
			blocks[k].Topology = parts[i].name
		}
		p.Blocks = joined(p.Blocks, blocks)
		p.Topologies = append(p.Topologies, Topology{parts[i].name, parts[i].fabric, z.sizes})
		if !s.policy.TreeOnly {
			found = append(found, nameImpossible(&s.policy, parts[i].name, z.sizes, blocks)...)
		}
		if i == most {
			p.BaseBlockSize, p.BlockSizes, p.Default = z.base, z.sizes, parts[i].name
		}
	}
	return all, found, nil
}

// joined appends next to all. The blocks of the first topology, which often is the only one,
// are not copied.
func joined[T any](all, next []T) []T {
	if len(all) == 0 {
		return next
	}
	return append(all, next...)
}

// heaviest returns the published default, else the part with most GPUs, the first among
// equals. A node that does not say how many it has counts once. Of a file of one topology
// it returns the part that most published blocks belong to.
func heaviest(s *site, parts []part) int {
	if at := slices.IndexFunc(parts, func(p part) bool { return p.name == s.prev.Default }); at >= 0 {
		return at
	}
	best, most, mostKnown := 0, 0, 0
	for i := range parts {
		gpus, known := 0, 0
		for b := range parts[i].blocks {
			if parts[i].blocks[b].published != none && s.policy.OneTopology {
				known++
			}
			for _, n := range parts[i].blocks[b].nodes {
				gpus += max(1, s.facts[n].GPUCount())
			}
		}
		if known > mostKnown || known == mostKnown && gpus > most {
			best, most, mostKnown = i, gpus, known
		}
	}
	return best
}

// leaveOutOthers leaves out the new blocks of all parts but one: the file holds one
// topology. Published blocks are in the file, and stay there.
func (z *sizing) leaveOutOthers(s *site, parts []part, at int) (kept part, found problems) {
	kept = parts[at]
	for i := range parts {
		if i == at {
			continue
		}
		nodes := 0
		for _, b := range parts[i].blocks {
			if b.published != none {
				kept.blocks = append(kept.blocks, b)
				continue
			}
			nodes += len(b.nodes)
			z.leaveOut(b.nodes, ReasonOtherTopology, fmt.Sprintf("topology.conf holds one topology, which %s is, and its rack belongs to %s", parts[at].name, parts[i].name))
		}
		if nodes > 0 {
			found.add("", ReasonOtherTopology, fmt.Sprintf("%d nodes of topology %s are left out: topology.conf holds one topology, which %s is", nodes, parts[i].name, parts[at].name))
		}
	}
	kept.name = s.kind()
	kept.takeAll(kept.blocks)
	return kept, found
}

// LostTopologies returns the published block topologies that the plan no longer has. A
// partition that names one ends slurmctld, so people decide. Topologies of another kind,
// which the configuration chose, are not among them. prev may be nil.
func (p *Plan) LostTopologies(prev *Previous) []string {
	if prev == nil || prev.ByLeaf != p.ByLeaf || len(p.Topologies) == 0 {
		return nil
	}
	var lost []string
	for i := range prev.Topologies {
		name := prev.Topologies[i].Name
		if name != "" && !slices.ContainsFunc(p.Topologies, func(t Topology) bool { return t.Name == name }) {
			lost = append(lost, name)
		}
	}
	return lost
}

// named returns the previous plan with its topologies named. A file of one topology names
// none, and neither does a plan of an older version.
func (p *Previous) named(kind string) Previous {
	next := *p
	next.Blocks, next.Topologies = slices.Clone(p.Blocks), slices.Clone(p.Topologies)
	for i := range next.Blocks {
		next.Blocks[i].Topology = cmp.Or(next.Blocks[i].Topology, kind)
	}
	for i := range next.Topologies {
		next.Topologies[i].Name = cmp.Or(next.Topologies[i].Name, kind)
	}
	if len(next.Topologies) == 0 && len(next.Blocks) > 0 {
		next.Topologies = []Topology{{Name: kind}}
		if p.BaseBlockSize > 0 {
			next.Topologies[0].BlockSizes = []int{p.BaseBlockSize}
		}
	}
	return next
}
