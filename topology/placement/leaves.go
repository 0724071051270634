package placement

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// fromSwitch is the source of a node's block where that is its leaf switch.
const fromSwitch source = "switch"

// readLeaves takes the leaf switch of a node for what makes its block, in the
// place of an NVLink domain.
func (p *planner) readLeaves() {
	known := make(map[topology.Domain]int32)
	for i, f := range p.facts {
		r, pl := &p.read[i], &p.plan.Placements[i]
		r.clique, r.domain = topology.Clique{}, 0
		if f.Stays != "" || f.Gone {
			continue // they say what they said
		}
		pl.Source, pl.Reason, pl.Message = "", "", ""
		switch {
		case !r.hasGPUs:
			r.keep, pl.Reason, pl.Message = true, ReasonNoGPUs, "nothing says that the node has a GPU"
		case len(r.tiers) == 0 || r.tiers[0] == "":
			r.keep, pl.Reason, pl.Message = true, ReasonTiersMissing, "nothing names the leaf switch above it"
		default:
			r.keep, pl.Source = false, string(fromSwitch)
			r.domain = p.intern(known, []topology.Domain{{Value: r.tiers[0]}})[0]
		}
	}
	p.plan.Problems = slices.DeleteFunc(p.plan.Problems, func(pr topology.Problem) bool {
		return pr.Reason == ReasonCliqueDiffers || pr.Reason == ReasonDomainDiffers // no NVLink domain is followed
	})
}

// leaveKind takes what was published out of blocks of another kind than the plan's:
// leaves where NVLink domains are wanted, or the reverse. Those that a node may still
// register with stay, empty.
func (p *planner) leaveKind() {
	if !p.prev.ofAnotherKind(p.policy.ByLeaf) {
		return
	}
	var stay []Block
	for _, b := range p.prev.Blocks {
		if !p.prev.BlocksElsewhere && p.inUse(b.Name) {
			stay = append(stay, Block{Name: b.Name})
		}
	}
	p.prev.BaseBlockSize, p.prev.Blocks = 0, stay
}

// ofAnotherKind reports whether nodes are published in blocks of another kind. Those
// that are empty have been left before.
func (p *Previous) ofAnotherKind(byLeaf bool) bool {
	if !byLeaf {
		return p.ByLeaf
	}
	return !p.ByLeaf && slices.ContainsFunc(p.Blocks, func(b Block) bool {
		return len(b.Nodes) > 0 && (isCliqueName(b.Name) || isDomainName(b.Name))
	})
}

// leafBlockNames returns the names that the block of a leaf switch may have: that
// of the switch, unless a block of another kind is called so.
func leafBlockNames(leaf string) [3]string {
	names := tierValue{0, leaf}.names()
	if isSpareName(names[0]) {
		names[0] = names[1]
	}
	return names
}
