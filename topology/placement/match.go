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
	published int      // index into prev.blocks, none for a new block
	place     int      // its published place in its topology, none if it is new there
	name      string   // given by nameBlocks
	gone      []string // nodes that no longer exist and keep the block at its size
}

func (b *block) size() int { return len(b.nodes) + len(b.gone) }

// matching has every group with its published block, and behind them the published
// blocks that no group takes.
type matching struct {
	read   readings
	blocks []block
	stays  stays
}

// matchPublished finds the published block of every group. Nodes without a reading
// that is followed stay in their published block.
func matchPublished(s *site, g grouping) (matching, problems) {
	counts := countVotes(s, g)
	c := claimBlocks(s, g, counts)
	st, found := findStays(s, g, c)
	m := matching{read: g.read, blocks: make([]block, len(g.groups)), stays: st}
	for i, grp := range g.groups {
		grp.nodes = st.without(grp.nodes)
		m.blocks[i] = block{group: grp, published: c.blockOf[i]}
	}
	kept := keptNodes(s, m)
	for b, at := range c.groupOf {
		forgotten := s.forgets(&s.prev.blocks[b]) && len(kept[b]) == 0 && !counts[b].silent()
		if at == none && !forgotten && !s.isSpare(b) {
			at = len(m.blocks)
			m.blocks = append(m.blocks, block{group: group{identity: noUnit}, published: b})
		}
		if at != none && len(kept[b]) > 0 {
			m.blocks[at].nodes = slices.Sorted(slices.Values(slices.Concat(m.blocks[at].nodes, kept[b])))
		}
	}
	return m, append(found, nameForgotten(s, m.blocks)...)
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
// gone: kept nodes whose Node object is gone. doubtful: nodes that name another
// domain by a label that is not followed, or by an unconfirmed reading. sure: nodes
// that name a domain by a confirmed reading or a label.
type votes struct{ kept, gone, doubtful, sure int }

// silent reports whether a node of the block says nothing now, or nothing that is
// followed. Then the block is not free for a clique without a node in it.
func (v *votes) silent() bool { return v.kept+v.doubtful > 0 }

// allGone reports whether the Node objects of all nodes that keep the block have
// gone. Then the block is free for the clique that it is named after: the same
// machines may be back under other names.
func (v *votes) allGone() bool { return v.doubtful == 0 && v.kept == v.gone }

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
			if v.kept++; s.facts[i].Gone {
				v.gone++
			}
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

// match is a published block that may be a group's: the more nodes it has of the
// group, and the better the name, because two clusters may share shorter names.
type match struct{ group, block, common, name int }

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
	matches := findMatches(s, g, votes)
	slices.SortStableFunc(matches, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.common, a.common), cmp.Compare(b.name, a.name))
	})
	for _, m := range matches {
		v := &votes[m.block]
		foreign := m.common == 0 && v.silent() && (m.name < 0 || !v.allGone())
		if c.groupOf[m.block] != none || foreign || c.blockOf[m.group] != none {
			continue
		}
		c.groupOf[m.block], c.blockOf[m.group] = m.group, m.block
	}
	return c
}

// findMatches lists the published blocks that a group may take: blocks with one of
// its names, and blocks that its nodes are published in. The second kind counts
// only if block or group is not named after a clique. So a block that was made from
// labels stays the same block when agents report the clique.
func findMatches(s *site, g grouping, votes []votes) []match {
	byName := make(map[string]int, len(s.prev.blocks))
	for b := range s.prev.blocks {
		byName[s.prev.blocks[b].Name] = b
	}
	matches := make([]match, 0, len(g.groups))
	var shared []share
	for i := range g.groups {
		grp := &g.groups[i]
		shared = sharesOf(s, g, grp, shared[:0])
		first := len(matches)
		add := func(name string, preference int) {
			b, ok := byName[name]
			if !ok || preference < 0 && !firmly(votes, b, shared) {
				return
			}
			common := 0
			if at := indexOf(shared, b); at != none {
				common = shared[at].nodes
			}
			matches = append(matches, match{i, b, common, preference})
		}
		for length, name := range grp.names {
			add(name, length)
		}
		for _, name := range grp.aliases {
			add(name, preferAlias)
		}
		fresh := len(grp.nodes)
		for _, sh := range shared {
			fresh -= sh.nodes
		}
		for _, sh := range shared {
			known := slices.ContainsFunc(matches[first:], func(m match) bool { return m.block == sh.block })
			if !known && s.mayTake(grp, sh, fresh, &votes[sh.block]) && firmly(votes, sh.block, shared) {
				matches = append(matches, match{i, sh.block, sh.nodes, preferNone})
			}
		}
	}
	return matches
}

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
// block of one clique is never another's, and a block that was named by hand is
// nobody's. If silent nodes leave no room for a group that is mostly new, the block
// is not the group's: one of the group's nodes was moved there.
func (s *site) mayTake(g *group, sh share, fresh int, v *votes) bool {
	name := s.prev.blocks[sh.block].Name
	if !topology.IsLabelBlock(name) && (g.unit == none || !topology.IsCliqueBlock(name)) {
		return false
	}
	return fresh <= sh.nodes || v.kept+len(g.nodes) <= s.baseOf(sh.block)
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
		found.add("", ReasonForgottenInUse, fmt.Sprintf("block %s is to be forgotten, but it %s: it stays", s.prev.blocks[b].Name, why))
	}
	return found
}
