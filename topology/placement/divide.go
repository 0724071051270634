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
	section
	// set is the base block size that is configured, or that is kept while a decision about the topology waits.
	// published is the published one. Each is 0 if there is none.
	set, published int
	// hasBase: the topology itself was published with that base.
	hasBase bool
	domains []*domain
	// unnamed are the sizes of the site's domains without a node in Slurm.
	unnamed []int
	// isDefault: partitions that name no topology have this one.
	isDefault bool
}

// divide assigns each block to a block topology. A new block of no known fabric is left out if there
// are several fabrics. If the file holds one topology, new blocks of the others are left out.
func divide(blocks []*domain, unnamed []int, t tree, old *published, policy *Policy) (parts []*part, found problems) {
	blocks = findFabrics(blocks, t)
	known := slices.DeleteFunc(slices.Clone(old.topologies), func(t topology.Topology) bool { return len(t.Sizes) == 0 })
	if !old.named && !policy.OneTopology {
		known = nil
	}
	blocks = askFirst(blocks, known, t, policy)
	parts = divideRacks(blocks, known, policy)
	for _, d := range blocks {
		if c := d.waits; c != nil {
			leaveOut(d.nodes, ReasonHeld, fmt.Sprintf("its %s fits no published topology: the node waits until somebody approves the change of topology %s to %s (digest %s)", d.title(), c.From, c.To, c.Digest()))
		}
	}
	for _, p := range parts {
		switch p.published = old.baseOf(p.name); {
		case slices.ContainsFunc(p.domains, func(d *domain) bool { return d.keptIn != "" }):
			p.set = p.published
		case len(policy.SizeClasses) > 0:
			p.set = p.class
		default:
			p.set = policy.BaseBlockSize
		}
		for _, d := range p.domains {
			if d.topology() == p.name {
				d.position = d.old.position
			}
		}
	}
	if parts == nil {
		whole := &part{name: policy.kind(), set: policy.BaseBlockSize, published: old.base, domains: blocks}
		if len(policy.SizeClasses) > 0 && len(blocks) > 0 {
			whole.set = classOf(policy.SizeClasses, blocks[0].size)
		}
		whole.keepPositions()
		parts = []*part{whole}
	}
	most := heaviest(parts, old, policy)
	if policy.OneTopology {
		most.published = old.base
		found = most.leaveOutOthers(parts, policy)
		parts = []*part{most}
	}
	most.isDefault = true
	for _, p := range parts {
		p.unnamed, p.hasBase = unnamed, old.baseOf(p.name) > 0
		p.dropDoubles()
	}
	return parts, append(found, nameForgotten(blocks, policy)...)
}

// nameForgotten names the blocks that the policy forgets and that stay.
func nameForgotten(ds []*domain, policy *Policy) (found problems) {
	for _, d := range ds {
		if d.old == nil || !slices.Contains(policy.Forget, d.old.Name) {
			continue
		}
		why := "is the block of nodes that may not move yet"
		switch waits := policy.keeps(TopologiesChange, d.topology()); {
		case len(d.nodes) > 0:
			why = fmt.Sprintf("has %s, such as %s", countText(len(d.nodes)), d.nodes[0].SlurmName)
		case d.old.inUse:
			why = "is named by annotations of nodes"
		case waits != nil:
			why = fmt.Sprintf("is in topology %s, which stays until somebody approves the change %s", d.topology(), waits.Digest())
		}
		found.add("", ReasonForgottenInUse, fmt.Sprintf("forgetBlocks names block %s, but the block %s: it stays", d.old.Name, why))
	}
	return found
}

// dropDoubles leaves out the empty blocks whose name another block of the topology has. They came from another
// topology: a node that may still register with such a block finds the other one.
func (p *part) dropDoubles() {
	named := make(map[string]*domain, len(p.domains))
	for _, d := range p.domains {
		if named[d.name] == nil || len(d.nodes) > 0 {
			named[d.name] = d
		}
	}
	p.domains = slices.DeleteFunc(p.domains, func(d *domain) bool { return named[d.name] != d && len(d.nodes) == 0 })
}

// keepPositions lets the blocks keep their positions, whatever the published topology is called.
func (p *part) keepPositions() {
	for _, d := range p.domains {
		if d.position = 0; d.old != nil {
			d.position = d.old.positionInAll
		}
	}
}

// topology returns the topology that the block was published in, or "".
func (d *domain) topology() string {
	if d.old == nil {
		return ""
	}
	return d.old.topology
}

// findFabrics finds the switches above each block. Blocks of no known fabric get the only known one. If there are
// several, new ones are left out.
func findFabrics(blocks []*domain, t tree) (kept []*domain) {
	paths, named := topology.PathsAbove(t.switches), topology.PathsAbove(topology.NamedSwitches(t.switches))
	var known []string
	for _, d := range blocks {
		d.fabric, _, _ = strings.Cut(strings.TrimPrefix(d.aboveLeaf(paths), "/"), "/")
		d.above = d.aboveLeaf(named)
		if d.fabric != "" && !slices.Contains(known, d.fabric) {
			known = append(known, d.fabric)
		}
	}
	for _, d := range blocks {
		switch {
		case d.fabric == "" && len(known) == 1:
			d.fabric = known[0]
		case d.fabric == "" && len(known) > 1 && d.old == nil:
			leaveOut(d.nodes, ReasonNoSwitch, fmt.Sprintf("nothing names the switches above its %s, and there are %d fabrics: no job runs in two of them", d.title(), len(known)))
			continue
		}
		kept = append(kept, d)
	}
	return kept
}

// aboveLeaf names the switches above the leaves of most of a block's nodes, from
// the top. The tree knows of silent nodes what was published.
func (d *domain) aboveLeaf(paths map[string]string) string {
	votes := make(map[string]int)
	for _, n := range d.nodes {
		if path := paths[n.leaf]; path != "" {
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

// heaviest returns the published default, else the part with most GPUs, the first among
// equals. A node that does not say how many it has counts once. Of a file of one topology
// it returns the part that most published blocks belong to.
func heaviest(parts []*part, old *published, policy *Policy) *part {
	if at := slices.IndexFunc(parts, func(p *part) bool { return p.name == old.defaultName }); at >= 0 {
		return parts[at]
	}
	best, most, mostKnown := parts[0], 0, 0
	for _, p := range parts {
		gpus, known := 0, 0
		for _, d := range p.domains {
			if d.old != nil && policy.OneTopology {
				known++
			}
			for _, n := range d.nodes {
				gpus += max(1, n.GPUCount())
			}
		}
		if known > mostKnown || known == mostKnown && gpus > most {
			best, most, mostKnown = p, gpus, known
		}
	}
	return best
}

// leaveOutOthers leaves out the new blocks of all other parts: the file holds one
// topology. Published blocks are in the file, and stay there.
func (p *part) leaveOutOthers(parts []*part, policy *Policy) (found problems) {
	for _, other := range parts {
		if other == p {
			continue
		}
		nodes := 0
		for _, d := range other.domains {
			if d.old != nil {
				p.domains = append(p.domains, d)
				continue
			}
			nodes += len(d.nodes)
			leaveOut(d.nodes, ReasonOtherTopology, fmt.Sprintf("topology.conf holds one topology, which %s is, and its rack belongs to %s", p.name, other.name))
		}
		if nodes > 0 {
			found.add("", ReasonOtherTopology, fmt.Sprintf("%d nodes of topology %s are left out: topology.conf holds one topology, which %s is", nodes, other.name, p.name))
		}
	}
	p.name = policy.kind()
	p.keepPositions()
	return found
}
