package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// unconfirmed reports whether the node is published in a block and its GPUs name
// a clique that its agent has not read twice in this boot. Those that name none are keepUnlessNone's.
func (p *planner) unconfirmed(i int) bool {
	b := p.was[i]
	return b >= 0 && p.plan.Placements[i].Source == string(fromNVML) && p.facts[i].Report.Domain.Clique != p.read[i].clique
}

// keepUnlessNone keeps a published node in its block where its GPUs say that they
// have no NVLink domain and that is not confirmed.
func (p *planner) keepUnlessNone(i int, d domain) domain {
	f := p.facts[i]
	if d.reason != ReasonNoDomain || d.keep || p.policy.ByLeaf || p.was == nil || p.was[i] < 0 || f.Report.Domain.None {
		return d
	}
	block := p.prev.Blocks[p.was[i]].Name
	why, until := notConfirmed(f)
	d = domain{keep: true, reason: ReasonUnconfirmed, message: d.message + ", and " + why}
	p.problem(f.Name, d.reason, fmt.Sprintf("%s: it stays in block %s until %s", d.message, block, until))
	return d
}

// notConfirmed says of a node why what its GPUs report is not confirmed, and what
// would end that.
func notConfirmed(f *topology.Facts) (why, until string) {
	if was := f.Report.Domain.Clique; !was.IsZero() {
		return "clique " + was.String() + " was confirmed in this boot", "the node is rebooted"
	}
	return "no second reading of this boot confirms it", "its agent has read it twice in a row; an agent that is older than the publisher never says so"
}

// countUnconfirmed keeps the blocks of such nodes from cliques that have no node
// in them, for they may have to stay, and counts the others that name a domain.
func (p *planner) countUnconfirmed() {
	for i := range p.read {
		switch {
		case p.unconfirmed(i):
			p.silent[p.was[i]].doubtful++
		case p.was[i] >= 0 && p.groupOf[i] >= 0:
			p.silent[p.was[i]].sure++
		}
	}
}

// firmly reports whether a group may take a block that is not named after its
// clique: readings that are not confirmed take none from nodes that say something
// sure, nor lead their group away from the blocks of its nodes that do.
func (p *planner) firmly(block int, shared []sharing) bool {
	at := slices.IndexFunc(shared, func(s sharing) bool { return s.block == block })
	sure := func(s sharing) bool { return s.unconfirmed < s.nodes }
	return at < 0 || sure(shared[at]) || p.silent[block].sure == 0 && !slices.ContainsFunc(shared, sure)
}

// keepUnconfirmed leaves a published node in its block where its clique belongs
// to another and is not confirmed: Fabric Manager may still be at work, and one
// reading may be wrong. Files do not say which clique a block is of, so what
// counts is the block that the clique's group takes.
func (p *planner) keepUnconfirmed() {
	waits := make(map[int]int) // group -> its nodes that are not confirmed
	for i := range p.read {
		if !p.unconfirmed(i) || p.groups[p.groupOf[i]].prev == int(p.was[i]) {
			continue
		}
		waits[int(p.groupOf[i])]++
		why, until := notConfirmed(p.facts[i])
		p.stay(i, fmt.Sprintf("its GPUs report clique %s, and %s", p.read[i].clique, why), until)
	}
	for g, n := range waits {
		grp := &p.groups[g]
		grp.nodes = slices.DeleteFunc(grp.nodes, func(i int) bool { return p.read[i].keep })
		if need := p.leastNodes(); grp.prev < 0 && len(grp.nodes) < need && len(grp.nodes)+n >= need {
			p.waitFor(grp, n)
		}
	}
}

// waitFor leaves the confirmed nodes of a new clique in their blocks while those
// without which it makes no block are not confirmed: they would be nowhere.
func (p *planner) waitFor(g *group, others int) {
	for _, i := range g.nodes {
		if p.was[i] >= 0 {
			p.stay(i, fmt.Sprintf("its clique %s makes no block without %d nodes that are not confirmed yet", g.clique, others), "they are")
		}
	}
	g.nodes = slices.DeleteFunc(g.nodes, func(i int) bool { return p.read[i].keep })
}

// leastNodes is from how many nodes on a new clique makes a block.
func (p *planner) leastNodes() int {
	if p.policy.ShortBlocks {
		return p.policy.MinBlockNodes
	}
	return max(p.policy.MinBlockNodes, cmp.Or(p.policy.BaseBlockSize, p.prev.BaseBlockSize))
}

// stay has a published node keep its block, and names it.
func (p *planner) stay(i int, why, until string) {
	r, pl, b := &p.read[i], &p.plan.Placements[i], int(p.was[i])
	r.clique, r.keep = topology.Clique{}, true
	p.silent[b].kept++
	pl.Source, pl.Reason, pl.Message = "", ReasonUnconfirmed, why
	p.problem(p.facts[i].Name, ReasonUnconfirmed, fmt.Sprintf("%s: it stays in block %s until %s", why, p.prev.Blocks[b].Name, until))
}
