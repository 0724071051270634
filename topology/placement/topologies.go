package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// madeParts is the topologies, and all their blocks together.
type madeParts struct {
	topologies []topology.Topology
	blocks     []block
	// leftOut are the nodes in no block and why, by index into the site's facts.
	leftOut leftOut
}

// makeParts sizes, orders and writes the blocks of every topology. It returns what is wrong
// too.
func makeParts(s *site, parts []part, t tree) (madeParts, problems, error) {
	made := madeParts{leftOut: leftOut{}}
	most := heaviest(s, parts)
	var found problems
	if s.policy.OneTopology {
		var kept part
		kept, found = leaveOutOthers(s, parts, most, made.leftOut)
		parts, most = []part{kept}, 0
	}
	before := 0 // blocks of the topologies before
	for i := range parts {
		p := &parts[i]
		sizes, inSizes, err := sizeBlocks(s, p)
		if err != nil {
			return made, nil, err
		}
		order, inOrder := orderBlocks(s, p.blocks, sizes, t)
		blocks := writeBlocks(s, p.blocks, order, before)
		found = append(append(found, inSizes...), inOrder...)
		made.blocks = joined(made.blocks, p.blocks)
		if len(blocks) == 0 {
			continue
		}
		before += len(blocks)
		made.topologies = append(made.topologies, topology.Topology{Name: p.name, Default: i == most, Kind: topology.KindBlock,
			Fabric: cmp.Or(p.fabric, s.fabricOf(p.name)), Sizes: sizes, Blocks: blocks})
		if !s.policy.TreeOnly {
			found = append(found, nameImpossible(&s.policy, p.name, sizes, blocks)...)
		}
	}
	if apart := topology.Apart(made.topologies); apart != "" && !s.policy.TreeOnly {
		found.add("", ReasonTopologiesApart, apart)
	}
	return made, found, nil
}

// nameSwitchless says what to do on a site without any place that Slurm could schedule by: NVLink ends
// in its machines, or is not wanted, and no switch is known.
func nameSwitchless(s *site, plan *topology.Plan) problems {
	placed := slices.ContainsFunc(plan.Topologies, func(t topology.Topology) bool { return t.Kind == topology.KindTree || !s.policy.TreeOnly })
	if placed || s.policy.Flat {
		return nil
	}
	nodes := 0
	for i := range plan.Nodes { // beside the facts
		switch reason := plan.Nodes[i].Reason; {
		case reason == ReasonNoDomain,
			reason == topology.ReasonDomainImplausible && s.facts[i].Fabric.Place == topology.PlaceNone,
			reason == ReasonPlaced && s.policy.TreeOnly,
			reason == ReasonTiersMissing && s.policy.ByLeaf:
			nodes++
		}
	}
	if nodes == 0 {
		return nil
	}
	what := "NVLink ends in the machine (%s), so Slurm places jobs by switches"
	switch {
	case s.policy.TreeOnly:
		what = "topology: tree publishes switches alone (%s)"
	case s.policy.ByLeaf:
		what = "blocksBy: leaf makes a block of each leaf switch (%s)"
	}
	flat := "set flatTopology: true if all nodes are equally near"
	if s.policy.OneTopology {
		flat = "leave TopologyPlugin out of slurm.conf if all nodes are equally near: Slurm then needs no topology file"
	}
	count := fmt.Sprintf("%d nodes", nodes)
	if nodes == 1 {
		count = "1 node"
	}
	var found problems
	found.add("", ReasonSwitchesUnknown, fmt.Sprintf(what+", and no switch is known: have the cables read (key fabricFiles; try it by quoin map --ibnetdiscover), or label the nodes with their switches (manifests/docs/first-map.md says how), or %s", count, flat))
	return found
}

// fabricOf returns the published fabric of a topology.
func (s *site) fabricOf(name string) string {
	if at := slices.IndexFunc(s.prev.topologies, func(t topology.Topology) bool { return t.Name == name }); at >= 0 {
		return s.prev.topologies[at].Fabric
	}
	return ""
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
	if at := slices.IndexFunc(parts, func(p part) bool { return p.name == s.prev.defaultName }); at >= 0 {
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
func leaveOutOthers(s *site, parts []part, at int, left leftOut) (kept part, found problems) {
	kept = parts[at]
	kept.blocks = slices.Clone(kept.blocks)
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
			left.add(b.nodes, ReasonOtherTopology, fmt.Sprintf("topology.conf holds one topology, which %s is, and its rack belongs to %s", parts[at].name, parts[i].name))
		}
		if nodes > 0 {
			found.add("", ReasonOtherTopology, fmt.Sprintf("%d nodes of topology %s are left out: topology.conf holds one topology, which %s is", nodes, parts[i].name, parts[at].name))
		}
	}
	kept.name = s.policy.kind()
	kept.blocks = inPlaces(kept.blocks)
	return kept, found
}
