package placement

import (
	"fmt"
	"slices"
)

// stays are the nodes that stay in their published block although their facts name
// another, and why, by index into the site's facts.
type stays map[int]verdict

// without returns the nodes that do not stay.
func (st stays) without(nodes []int) []int {
	if len(st) == 0 {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n int) bool {
		_, stays := st[n]
		return stays
	})
}

// findStays finds the published nodes that do not follow their facts: nodes whose
// label alone names another block, and nodes whose unconfirmed clique is in another
// block. Fabric Manager may still be at work, and one reading may be wrong. Files
// do not name the clique of a block, so the block that the clique's group takes
// counts.
func findStays(s *site, g grouping, c claims) (stays, problems) {
	st := stays{}
	var found problems
	unconfirmed := make(map[int]int) // group -> its nodes that are not confirmed
	for i, f := range s.facts {
		b := s.block(i)
		if b == none || g.of[i] == none || c.blockOf[g.of[i]] == b {
			continue
		}
		block := s.prev.blocks[b].Name
		switch {
		case s.doubtsLabel(g, i):
			st[i] = verdict{reason: ReasonNoFacts, message: fmt.Sprintf("only its label says %s, and no report confirms it", s.labelText(f))}
			reason := ReasonCliqueDiffers
			if f.Labels.Clique.IsZero() {
				reason = ReasonDomainDiffers
			}
			found.add(f.Name, reason, fmt.Sprintf("its label says %s, it is published in block %s, and no report of it can be read: it stays", s.labelText(f), block))
		case s.unconfirmed(g, i):
			st[i] = verdict{reason: ReasonUnconfirmed, message: fmt.Sprintf("its GPUs report clique %s, and %s", g.read[i].clique, notConfirmed)}
			found.add(f.Name, ReasonUnconfirmed, fmt.Sprintf("%s: it stays in block %s until %s", st[i].message, block, untilRead))
			unconfirmed[int(g.of[i])]++
		}
	}
	for at, n := range unconfirmed {
		if c.blockOf[at] == none {
			found = append(found, st.waitFor(s, &g.groups[at], n)...)
		}
	}
	return st, found
}

// waitFor leaves the confirmed nodes of a new clique in their blocks if the clique
// makes no block without its nodes that are not confirmed: they would be nowhere.
func (st stays) waitFor(s *site, g *group, unconfirmed int) problems {
	confirmed, need := st.without(g.nodes), s.policy.MinBlockNodes
	if len(confirmed) >= need || len(confirmed)+unconfirmed < need {
		return nil
	}
	var found problems
	for _, i := range confirmed {
		if b := s.block(i); b != none {
			st[i] = verdict{reason: ReasonUnconfirmed, message: fmt.Sprintf("its clique %s makes no block without %d nodes that are not confirmed yet", g.clique, unconfirmed)}
			found.add(s.facts[i].Name, ReasonUnconfirmed, fmt.Sprintf("%s: it stays in block %s until they are", st[i].message, s.prev.blocks[b].Name))
		}
	}
	return found
}

// unconfirmed reports whether the node is published in a block and its GPUs name a
// clique that its agent has not read twice in this boot.
func (s *site) unconfirmed(g grouping, i int) bool {
	return s.block(i) != none && g.read[i].source == fromNVML && s.facts[i].Report.Domain.Clique != g.read[i].clique
}

// doubtsLabel reports whether only a label puts a published node elsewhere, and
// agents are at work: a report that is missing for a while, or that cannot be read,
// moves nothing. If any node has a report, readable or not, labels alone move no
// node. If no node has a report, labels move the nodes that never had one, because
// nothing else is known of them. A node that once had a report stays until its
// report is back or the node has been away, so that deleting all reports moves no
// node.
func (s *site) doubtsLabel(g grouping, i int) bool {
	b := s.block(i)
	if b == none || g.read[i].source != fromLabel || !s.agents && !s.prev.reported[s.facts[i].SlurmName] {
		return false
	}
	return !slices.Contains(g.groups[g.of[i]].names[:], s.prev.blocks[b].Name)
}

// notConfirmed says that what a node's GPUs report is not confirmed, and what would end that.
const (
	notConfirmed = "no second reading of this boot confirms it"
	untilRead    = "its agent has read it twice in a row (an agent older than the publisher cannot report that)"
)

// firmly reports whether a group may take a block that is not named after its
// clique. Readings that are not confirmed take no block from nodes that say
// something sure, and do not lead their group away from the blocks of its nodes
// that do.
func firmly(votes []votes, block int, shared []share) bool {
	at := indexOf(shared, block)
	sure := func(sh share) bool { return sh.unconfirmed < sh.nodes }
	return at == none || sure(shared[at]) || votes[block].sure == 0 && !slices.ContainsFunc(shared, sure)
}
