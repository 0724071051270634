package placement

import (
	"cmp"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// match gives every domain the best published block that no better match takes.
//
// A block is one NVLink domain. So a domain takes its block, even if all nodes in that block are silent.
func match(ds []*domain, nodes []*node, old *published, policy *Policy) {
	countVotes(nodes)
	for _, b := range old.blocks {
		if b.divided.IsZero() {
			continue
		}
		if at := slices.IndexFunc(ds, func(d *domain) bool { return d.clique == b.divided }); at >= 0 {
			ds[at].take(b)
		}
	}
	matches := findMatches(ds, old, policy)
	slices.SortStableFunc(matches, func(a, b possible) int {
		return cmp.Or(cmp.Compare(b.sameClique, a.sameClique), cmp.Compare(b.common, a.common), cmp.Compare(b.name, a.name))
	})
	for _, m := range matches {
		m.take(m.block)
	}
}

// take gives the domain the block, if both are free.
func (d *domain) take(b *oldBlock) {
	if d.old == nil && b.domain == nil {
		d.old, b.domain = b, d
	}
}

// votes counts the nodes of a published block. staying: nodes that say nothing now.
// doubtful: nodes that name another domain by a label that is not followed, or by an
// unconfirmed reading. sure: nodes that name a domain by a confirmed reading or a label.
type votes struct{ staying, doubtful, sure int }

// silent reports whether a node of the block says nothing now, or nothing that is
// followed. Then the block is not free for a clique without a node in it.
func (v *votes) silent() bool { return v.staying+v.doubtful > 0 }

// countVotes counts what the nodes of each published block say.
func countVotes(nodes []*node) {
	for _, n := range nodes {
		if n.old == nil {
			continue
		}
		v := &n.old.votes
		if n.source == fromPrevious {
			v.staying++
		}
		switch {
		case n.unconfirmed():
			v.doubtful++
			continue
		case n.doubtsLabel():
			v.doubtful++
		}
		if n.block != nil {
			v.sure++
		}
	}
}

// unconfirmed reports whether the node is published in a block and its GPUs name a
// clique that its agent has not read twice in this boot.
func (n *node) unconfirmed() bool {
	return n.old != nil && n.source == fromNVML && n.Report.Domain.Clique != n.clique
}

// doubtsLabel reports whether only a label puts a published node elsewhere, and
// agents are at work: a report that is missing for a while, or that cannot be read,
// moves nothing. If any node has a report, readable or not, labels alone move no
// node. If no node has a report, labels move the nodes that never had one, because
// nothing else is known of them. A node that once had a report stays until its
// report is back or the node has been away, so that deleting all reports moves no
// node.
func (n *node) doubtsLabel() bool {
	return n.old != nil && n.source == fromLabel && n.reports && !slices.Contains(n.block.names[:], n.old.Name)
}

// possible is a published block that may be a domain's. The block that was published as the domain's
// clique goes first. Then, the more nodes it has of the domain the better, and the better the
// name, because two clusters may share shorter names.
type possible struct {
	*domain
	block        *oldBlock
	sameClique   int // 1 or 0
	common, name int
}

// What is worse than any length of a domain's own name as a reason to take a block.
const (
	preferAlias = -1
	preferNone  = -2
)

// findMatches lists the published blocks that each domain may take, by these rules:
//
//  1. the block that was published as its clique, the largest if there are several;
//  2. a block with one of its names;
//  3. a block with one of the names of a label that stands for its clique, if the domain may claim the block and has
//     a node in the block or fits beside its silent nodes;
//  4. a block that its nodes are published in, if mayJoin and mayClaim say so. So a block that was made from labels
//     stays the same block when agents report the clique.
//
// No block of rules 2 and 3 was published as another clique, unless the domain has nodes in it by rule 3.
func findMatches(ds []*domain, old *published, policy *Policy) []possible {
	byName, byClique := make(map[string]*oldBlock, len(old.blocks)), make(map[topology.Clique]*oldBlock, len(old.blocks))
	for _, b := range old.blocks {
		byName[b.Name] = b
		if other := byClique[b.Clique]; !b.Clique.IsZero() && (other == nil || len(b.Nodes) > len(other.Nodes)) {
			byClique[b.Clique] = b
		}
	}
	matches := make([]possible, 0, len(ds))
	for _, d := range ds {
		shared := d.shares()
		first, same := len(matches), byClique[d.clique]
		if same != nil {
			matches = append(matches, possible{d, same, 1, shared.of(same).nodes, preferNone})
		}
		for length, name := range d.names {
			if b := byName[name]; b != nil && d.mayBe(b) && b != same {
				matches = append(matches, possible{d, b, 0, shared.of(b).nodes, length})
			}
		}
		for _, name := range d.aliases {
			b := byName[name]
			if b != nil && shared.mayClaim(b) && (shared.of(b).nodes > 0 || d.mayBe(b) && d.fitsIn(b)) {
				matches = append(matches, possible{d, b, 0, shared.of(b).nodes, preferAlias})
			}
		}
		fresh := len(d.nodes)
		for _, sh := range shared {
			fresh -= sh.nodes
		}
		for _, sh := range shared {
			known := slices.ContainsFunc(matches[first:], func(m possible) bool { return m.block == sh.block })
			if !known && d.mayJoin(sh, fresh, policy) && shared.mayClaim(sh.block) {
				matches = append(matches, possible{d, sh.block, 0, sh.nodes, preferNone})
			}
		}
	}
	return matches
}

// mayBe reports whether a published block may be the domain: the block was published as the
// domain's clique, or as no clique.
func (d *domain) mayBe(b *oldBlock) bool {
	return b.Clique.IsZero() || d.clique.IsZero() || b.Clique == d.clique
}

// fitsIn reports whether the domain fits beside the nodes of a published block that say nothing.
func (d *domain) fitsIn(b *oldBlock) bool {
	return !b.votes.silent() || b.votes.staying+b.votes.doubtful+len(d.nodes) <= b.room()
}

// mayJoin reports whether a domain may take a block that has not its name. The
// block of one clique is never another's. A block that is named by hand is the domain's
// if most nodes of either are in both. A block that is named by a label and was published as another
// clique stays with the silent nodes of that clique. If silent nodes leave no room for a domain that is
// mostly new, the block is not the domain's: one of its nodes was moved there. fresh counts the domain's nodes that
// are published nowhere.
func (d *domain) mayJoin(sh share, fresh int, policy *Policy) bool {
	b := sh.block
	switch {
	case topology.IsLabelBlock(b.Name):
	case topology.IsCliqueBlock(b.Name):
		if d.label == (topology.Domain{}) {
			return false
		}
	case policy.ByLeaf || !b.Clique.IsZero() || 2*sh.nodes <= max(len(b.Nodes), len(d.nodes)):
		return false
	}
	return (d.mayBe(b) || !b.votes.silent()) && (fresh <= sh.nodes || b.votes.staying+len(d.nodes) <= b.room())
}

// share counts the nodes of a domain that are published in one block, and the
// unconfirmed ones among them.
type share struct {
	block              *oldBlock
	nodes, unconfirmed int
}

// sure reports whether a node of the share is not unconfirmed.
func (sh share) sure() bool { return sh.unconfirmed < sh.nodes }

// shares are the shares of one domain.
type shares []share

func (d *domain) shares() (shared shares) {
	for _, n := range d.nodes {
		if n.old == nil {
			continue
		}
		at := indexOrAdd(&shared, func(sh share) bool { return sh.block == n.old }, share{block: n.old})
		shared[at].nodes++
		if n.unconfirmed() {
			shared[at].unconfirmed++
		}
	}
	return shared
}

// of returns the share in a block, which may have no node.
func (shared shares) of(b *oldBlock) share {
	if at := slices.IndexFunc(shared, func(sh share) bool { return sh.block == b }); at >= 0 {
		return shared[at]
	}
	return share{block: b}
}

// mayClaim reports whether a domain may take a block that is not named after its
// clique. Readings that are not confirmed take no block from nodes that say
// something sure, and do not lead their domain away from the blocks of its nodes
// that do.
func (shared shares) mayClaim(b *oldBlock) bool {
	own := shared.of(b)
	return own.nodes == 0 || own.sure() || b.votes.sure == 0 && !slices.ContainsFunc(shared, share.sure)
}
