package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// block is a block of the plan: a group, or a published block that no node's facts
// name now.
type block struct {
	group
	published int    // index into prev.blocks, none for a new block
	place     int    // its published place in its topology, none if it is new there
	name      string // given by nameBlocks
	twin      bool   // another block is the same domain: the block stays, empty, while it is in use
}

// matching has every group with its published block, and behind them the published
// blocks that no group takes.
type matching struct {
	read    readings
	blocks  []block
	stays   stays
	unnamed []int // as in grouping
}

// matchPublished finds the published block of every group. Nodes without a reading
// that is followed stay in their published block.
//
// A block is one NVLink domain. So a group takes the block of its domain, even if all nodes in
// that block are silent. A further block of the same domain loses its nodes to that block, and
// leaves the plan when it is empty.
func matchPublished(s *site, g grouping) (matching, problems) {
	counts := countVotes(s, g)
	c := claimBlocks(s, g, counts)
	st, found := findStays(s, g, c)
	found = append(found, s.findOverfull(g, c, st)...)
	m := matching{read: g.read, blocks: make([]block, len(g.groups)), stays: st, unnamed: g.unnamed}
	for i, grp := range g.groups {
		before := len(grp.nodes)
		grp.nodes = st.without(grp.nodes)
		grp.domain -= before - len(grp.nodes)
		m.blocks[i] = block{group: grp, published: c.blockOf[i]}
	}
	kept := keptNodes(s, m)
	twins := s.findTwins(g, c)
	for b, first := range twins {
		if first != none && !s.prev.blocks[b].Clique.IsZero() {
			kept[c.blockOf[first]], kept[b] = slices.Concat(kept[c.blockOf[first]], kept[b]), nil
		}
	}
	for b, at := range c.groupOf {
		twin := twins[b] != none
		leaves := s.forgets(&s.prev.blocks[b]) && !counts[b].silent() || twin && s.mayGo(&s.prev.blocks[b])
		if at == none && !s.isSpare(b) && (!leaves || len(kept[b]) > 0) {
			at = len(m.blocks)
			m.blocks = append(m.blocks, block{published: b, twin: twin && len(kept[b]) == 0})
		}
		if at != none && len(kept[b]) > 0 {
			m.blocks[at].nodes = slices.Sorted(slices.Values(slices.Concat(m.blocks[at].nodes, kept[b])))
		}
	}
	return m, append(found, nameForgotten(s, m.blocks)...)
}

// findTwins returns, beside the published blocks, the group that has another block and whose
// domain the block is too, or none.
func (s *site) findTwins(g grouping, c claims) []int {
	twins := slices.Repeat([]int{none}, len(s.prev.blocks))
	if !slices.Contains(c.groupOf, none) {
		return twins
	}
	byName, byClique := make(map[string]int), make(map[topology.Clique]int)
	for i := range g.groups {
		grp := &g.groups[i]
		if c.blockOf[i] == none {
			continue
		}
		if !grp.clique.IsZero() {
			byClique[grp.clique] = i
		}
		for _, name := range grp.names {
			byName[name] = i
		}
		for _, name := range grp.aliases {
			byName[name] = i
		}
	}
	for b := range s.prev.blocks {
		published := &s.prev.blocks[b]
		of, is := byClique[published.Clique]
		if published.Clique.IsZero() {
			of, is = byName[published.Name]
		}
		if is && c.groupOf[b] == none {
			twins[b] = of
		}
	}
	return twins
}

// kept reports whether a node stays in its published block whatever its facts name.
func (m *matching) kept(node int) bool {
	_, stays := m.stays[node]
	return stays || m.read[node].keep
}

// keptNodes returns by published block the nodes that stay in it.
func keptNodes(s *site, m matching) [][]int {
	kept := make([][]int, len(s.prev.blocks))
	for i := range m.read {
		if b := s.block(i); b != none && m.kept(i) {
			kept[b] = append(kept[b], i)
		}
	}
	return kept
}

// votes counts the nodes of a published block. kept: nodes that say nothing now.
// doubtful: nodes that name another domain by a label that is not followed, or by an
// unconfirmed reading. sure: nodes that name a domain by a confirmed reading or a label.
type votes struct{ kept, doubtful, sure int }

// silent reports whether a node of the block says nothing now, or nothing that is
// followed. Then the block is not free for a clique without a node in it.
func (v *votes) silent() bool { return v.kept+v.doubtful > 0 }

// countVotes counts what the nodes of each published block say.
func countVotes(s *site, g grouping) []votes {
	counts := make([]votes, len(s.prev.blocks))
	for i := range g.read {
		b := s.block(i)
		if b == none {
			continue
		}
		v := &counts[b]
		if g.read[i].keep {
			v.kept++
		}
		switch {
		case s.unconfirmed(g, i):
			v.doubtful++
			continue
		case s.doubtsLabel(g, i):
			v.doubtful++
		}
		if g.of[i] != none {
			v.sure++
		}
	}
	return counts
}

// match is a published block that may be a group's. The block that was published as the group's
// clique goes first. Then, the more nodes it has of the group the better, and the better the
// name, because two clusters may share shorter names.
type match struct {
	group, block int
	sameClique   int // 1 or 0
	common, name int
}

// What is worse than any length of a group's own name as a reason to take a block.
const (
	preferAlias = -1
	preferNone  = -2
)

// claims are the published blocks that groups take over.
type claims struct {
	blockOf []int // group -> published block, or none
	groupOf []int // published block -> group, or none
}

// claimBlocks gives every group the best published block that no better match takes.
func claimBlocks(s *site, g grouping, votes []votes) claims {
	c := claims{slices.Repeat([]int{none}, len(g.groups)), slices.Repeat([]int{none}, len(s.prev.blocks))}
	s.claimDivided(g, &c)
	matches := findMatches(s, g, votes)
	slices.SortStableFunc(matches, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.sameClique, a.sameClique), cmp.Compare(b.common, a.common), cmp.Compare(b.name, a.name))
	})
	for _, m := range matches {
		c.take(m)
	}
	return c
}

// take gives the group the block, if both are free.
func (c *claims) take(m match) {
	if c.groupOf[m.block] == none && c.blockOf[m.group] == none {
		c.groupOf[m.block], c.blockOf[m.group] = m.group, m.block
	}
}

// findMatches lists the published blocks that a group may take: the block of its clique,
// blocks with one of its names, and blocks that its nodes are published in. The third kind counts
// only if block or group is not named after a clique. So a block that was made from
// labels stays the same block when agents report the clique.
func findMatches(s *site, g grouping, votes []votes) []match {
	byName, byClique := make(map[string]int, len(s.prev.blocks)), make(map[topology.Clique]int, len(s.prev.blocks))
	for b := range s.prev.blocks {
		published := &s.prev.blocks[b]
		byName[published.Name] = b
		other, is := byClique[published.Clique]
		if !published.Clique.IsZero() && (!is || len(published.Nodes) > len(s.prev.blocks[other].Nodes)) {
			byClique[published.Clique] = b
		}
	}
	matches := make([]match, 0, len(g.groups))
	var shared []share
	for i := range g.groups {
		grp := &g.groups[i]
		shared = sharesOf(s, g, grp, shared[:0])
		common := func(b int) int {
			if at := indexOf(shared, b); at != none {
				return shared[at].nodes
			}
			return 0
		}
		fresh := len(grp.nodes)
		for _, sh := range shared {
			fresh -= sh.nodes
		}
		first := len(matches)
		same, known := byClique[grp.clique]
		if known {
			matches = append(matches, match{i, same, 1, common(same), preferNone})
		}
		for length, name := range grp.names {
			if b, is := byName[name]; is && s.isOf(grp, b) && (!known || b != same) {
				matches = append(matches, match{i, b, 0, common(b), length})
			}
		}
		for _, name := range grp.aliases {
			b, ok := byName[name]
			if ok && firmly(votes, b, shared) && (common(b) > 0 || s.isOf(grp, b) && s.hasRoom(grp, b, &votes[b])) {
				matches = append(matches, match{i, b, 0, common(b), preferAlias})
			}
		}
		for _, sh := range shared {
			known := slices.ContainsFunc(matches[first:], func(m match) bool { return m.block == sh.block })
			if !known && s.mayTake(grp, sh, fresh, &votes[sh.block]) && firmly(votes, sh.block, shared) {
				matches = append(matches, match{i, sh.block, 0, sh.nodes, preferNone})
			}
		}
	}
	return matches
}

// isOf reports whether a published block may be the group's domain: the block was published as the
// group's clique, or as no clique.
func (s *site) isOf(g *group, block int) bool {
	published := s.prev.blocks[block].Clique
	return published.IsZero() || g.clique.IsZero() || published == g.clique
}

// hasRoom reports whether the group fits beside the nodes of a published block that say nothing.
func (s *site) hasRoom(g *group, block int, v *votes) bool {
	return !v.silent() || v.kept+v.doubtful+len(g.nodes) <= s.room(block)
}

// room returns how many nodes the domain of a published block is known to take.
func (s *site) room(block int) int { return max(s.baseOf(block), s.prev.blocks[block].Size) }

// share counts the nodes of a group that are published in one block, and the
// unconfirmed ones among them.
type share struct{ block, nodes, unconfirmed int }

// sharesOf appends the shares of a group.
func sharesOf(s *site, g grouping, grp *group, shared []share) []share {
	for _, i := range grp.nodes {
		b := s.block(i)
		if b == none {
			continue
		}
		at := indexOf(shared, b)
		if at == none {
			at = len(shared)
			shared = append(shared, share{block: b})
		}
		shared[at].nodes++
		if s.unconfirmed(g, i) {
			shared[at].unconfirmed++
		}
	}
	return shared
}

// indexOf returns which of the shares is in a block, or none.
func indexOf(shared []share, block int) int {
	return slices.IndexFunc(shared, func(sh share) bool { return sh.block == block })
}

// mayTake reports whether a group may take a block that has not its name. The
// block of one clique is never another's. A block that is named by hand is the group's
// if most nodes of either are in both. A block that is named by a label and was published as another
// clique stays with the silent nodes of that clique. If silent nodes leave no room for a group that is
// mostly new, the block is not the group's: one of the group's nodes was moved there.
func (s *site) mayTake(g *group, sh share, fresh int, v *votes) bool {
	block := &s.prev.blocks[sh.block]
	switch {
	case topology.IsLabelBlock(block.Name):
	case topology.IsCliqueBlock(block.Name):
		if g.label == (topology.Domain{}) {
			return false
		}
	case s.policy.ByLeaf || !block.Clique.IsZero() || 2*sh.nodes <= max(len(block.Nodes), len(g.nodes)):
		return false
	}
	return (s.isOf(g, sh.block) || !v.silent()) && (fresh <= sh.nodes || v.kept+len(g.nodes) <= s.room(sh.block))
}

// nameForgotten names the blocks that the policy forgets and that stay.
func nameForgotten(s *site, blocks []block) problems {
	var found problems
	for i := range blocks {
		b := blocks[i].published
		if b == none || !slices.Contains(s.policy.Forget, s.prev.blocks[b].Name) {
			continue
		}
		why := "is named by annotations of nodes"
		if nodes := blocks[i].nodes; len(nodes) > 0 {
			why = fmt.Sprintf("has %d nodes, such as %s", len(nodes), s.facts[nodes[0]].SlurmName)
		}
		found.add("", ReasonForgottenInUse, fmt.Sprintf("forgetBlocks names block %s, but the block %s: it stays", s.prev.blocks[b].Name, why))
	}
	return found
}
