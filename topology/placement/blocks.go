package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// blockPrefix begins the name of every block that is an NVLink domain.
const blockPrefix = "nvl-"

// blockNames returns the names that a clique's block may have, the shortest
// first: the prefix, 8 or more hex digits of the cluster UUID, the clique. None
// ends in more than 10 digits, for the dash ends the run.
func blockNames(c topology.Clique) [3]string {
	id := "-" + strconv.FormatUint(uint64(c.ID), 10)
	whole := blockPrefix + c.ClusterUUID.Hex() + id
	return [3]string{whole[:len(blockPrefix)+8] + id, whole[:len(blockPrefix)+16] + id, whole}
}

// matchPrevious finds for every known domain its published block, then lets
// the nodes without a reading stay in theirs.
func (p *planner) matchPrevious() {
	if len(p.prev.Blocks) == 0 {
		return
	}
	p.silent = make([]silence, len(p.prev.Blocks))
	p.countKept()
	p.countDoubtful()
	p.countUnconfirmed()
	matches := p.findMatches()
	slices.SortStableFunc(matches, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.common, a.common), cmp.Compare(b.name, a.name))
	})
	claims := make(map[int]int) // previous block -> group
	for _, m := range matches {
		others := m.common == 0 && p.unread(m.block) && (m.name < 0 || !p.deserted(m.block))
		if _, taken := claims[m.block]; taken || others || p.groups[m.group].prev >= 0 {
			continue
		}
		claims[m.block] = m.group
		p.groups[m.group].prev = m.block
	}
	p.doubtLabels()
	p.keepUnconfirmed()
	for b := range p.prev.Blocks {
		if _, ok := claims[b]; !ok && !p.forgets(b) && !p.isSpare(b) {
			claims[b] = len(p.groups)
			g := group{identity: identity{clique: p.prev.Blocks[b].Clique}, prev: b}
			if !g.clique.IsZero() {
				g.names = blockNames(g.clique)
			}
			p.groups = append(p.groups, g)
		}
	}
	p.keepUnread(claims)
	p.nameForgotten(claims)
}

// findMatches lists the published blocks that may be a group's: those of its
// names; and where a block or a group is not named after a clique, those that its
// nodes are published in. So a block that was made from labels stays one when
// agents report the clique.
func (p *planner) findMatches() []match {
	byName := make(map[string]int, len(p.prev.Blocks))
	for b := range p.prev.Blocks {
		byName[p.prev.Blocks[b].Name] = b
	}
	matches := make([]match, 0, len(p.groups))
	var shared []sharing
	for g := range p.groups {
		grp := &p.groups[g]
		shared = p.sharedBy(grp, shared[:0])
		named := len(matches)
		add := func(name string, preference int) {
			if b, ok := byName[name]; ok && p.sameClique(b, g) && (preference >= 0 || p.firmly(b, shared)) {
				matches = append(matches, match{g, b, commonWith(shared, b), preference})
			}
		}
		for length, name := range grp.names {
			add(name, length)
		}
		for _, name := range grp.aliases {
			add(name, preferAlias)
		}
		fresh := len(grp.nodes)
		for _, s := range shared {
			fresh -= s.nodes
		}
		for _, s := range shared {
			known := slices.ContainsFunc(matches[named:], func(m match) bool { return m.block == s.block })
			if !known && p.mayTake(g, s, fresh) && p.firmly(s.block, shared) {
				matches = append(matches, match{g, s.block, s.nodes, preferNone})
			}
		}
	}
	return matches
}

// sharing is how many nodes of a group are published in a block, and how many of
// them are not confirmed.
type sharing struct{ block, nodes, unconfirmed int }

func (p *planner) sharedBy(g *group, shared []sharing) []sharing {
	last := -1
	for _, i := range g.nodes {
		b := int(p.was[i])
		if b < 0 {
			continue
		}
		if last < 0 || shared[last].block != b {
			if last = slices.IndexFunc(shared, func(s sharing) bool { return s.block == b }); last < 0 {
				last = len(shared)
				shared = append(shared, sharing{block: b})
			}
		}
		shared[last].nodes++
		if p.unconfirmed(i) {
			shared[last].unconfirmed++
		}
	}
	return shared
}

func commonWith(shared []sharing, block int) int {
	for _, s := range shared {
		if s.block == block {
			return s.nodes
		}
	}
	return 0
}

// mayTake reports whether a group may be a block that has not its name. The
// block of one clique is never another's, and one that was named by hand is
// nobody's. A block in which silent nodes leave no place for a group that is mostly
// new is not the group's: one of its nodes was moved there.
func (p *planner) mayTake(g int, s sharing, fresh int) bool {
	name := p.prev.Blocks[s.block].Name
	if !isDomainName(name) && (p.groups[g].domain == 0 || !isCliqueName(name)) || !p.sameClique(s.block, g) {
		return false
	}
	return fresh <= s.nodes || p.silent[s.block].kept+len(p.groups[g].nodes) <= p.prev.BaseBlockSize
}

// silence is how many nodes of a published block say nothing now, how many of them have
// gone, how many name another domain by a label that is not to be followed or by a
// reading that is not confirmed, and how many are sure.
type silence struct{ kept, gone, doubtful, sure int }

func (p *planner) countKept() {
	for i := range p.read {
		if b := p.was[i]; b >= 0 && p.read[i].keep {
			p.silent[b].kept++
			if p.facts[i].Gone {
				p.silent[b].gone++
			}
		}
	}
}

func (p *planner) countDoubtful() {
	agents := p.agents
	if !agents && len(p.prev.Reported) == 0 {
		return
	}
	p.doubtful = make([]bool, len(p.facts))
	for i, f := range p.facts {
		b := p.was[i]
		if b < 0 || p.plan.Placements[i].Source != string(fromLabel) || !agents && !p.prev.Reported[f.SlurmName] {
			continue
		}
		if names := &p.groups[p.groupOf[i]].names; !slices.Contains(names[:], p.prev.Blocks[b].Name) {
			p.doubtful[i] = true
			p.silent[b].doubtful++
		}
	}
}

// doubtLabels keeps a published node in its block when only a label says
// otherwise and agents are at work: a report that is missing for a while, or
// that cannot be read, moves nothing. Where any node has a report, readable or
// not, labels alone move none. Where none has, they move those that never had
// one, for there they are all that is known; a node that once had one stays
// until its report is back or the node has been away, so that deleting all
// reports is no way to move nodes.
func (p *planner) doubtLabels() {
	for i, doubtful := range p.doubtful {
		b := int(p.was[i])
		if !doubtful || p.groups[p.groupOf[i]].prev == b {
			continue
		}
		g := &p.groups[p.groupOf[i]]
		g.nodes = slices.DeleteFunc(g.nodes, func(n int) bool { return n == i })
		f, pl, name := p.facts[i], &p.plan.Placements[i], p.prev.Blocks[b].Name
		p.read[i].clique, p.read[i].domain, p.read[i].keep = topology.Clique{}, 0, true
		p.silent[b].kept++
		pl.Source, pl.Reason = "", ReasonNoFacts
		pl.Message = fmt.Sprintf("no report confirms %s, which only its label says", f.Labels.DomainText())
		reason := ReasonCliqueDiffers
		if f.Labels.Clique.IsZero() {
			reason = ReasonDomainDiffers
		}
		p.problem(f.Name, reason, fmt.Sprintf("its label says %s, it is published in block %s, and no report of it can be read: it stays", f.Labels.DomainText(), name))
	}
}

// forgets reports whether the previous block leaves the plan for good: the
// policy says so, no node is to stay in it, and none may register with it.
func (p *planner) forgets(b int) bool {
	name := p.prev.Blocks[b].Name
	return slices.Contains(p.policy.Forget, name) && !p.inUse(name) && !p.unread(b)
}

// inUse reports whether a block or leaf has to stay though it is empty.
func (p *planner) inUse(name string) bool { return p.policy.ShortBlocks && p.prev.InUse[name] }

// nameForgotten names the blocks that the policy forgets and that stay.
func (p *planner) nameForgotten(claims map[int]int) {
	for b := range p.prev.Blocks {
		name := p.prev.Blocks[b].Name
		g, ok := claims[b]
		if !ok || !slices.Contains(p.policy.Forget, name) {
			continue
		}
		why := "is named by annotations of nodes"
		if nodes := p.groups[g].nodes; len(nodes) > 0 {
			why = fmt.Sprintf("has %d nodes, such as %s", len(nodes), p.facts[nodes[0]].SlurmName)
		}
		p.problem("", ReasonForgottenInUse, fmt.Sprintf("block %s is to be forgotten and %s: it stays", name, why))
	}
}

// match is a published block that may be a group's: the more nodes it has of
// it, and the better the name, for two clusters may share the shorter ones.
type match struct{ group, block, common, name int }

// What is below the length of a group's own name as a reason to take a block.
const (
	preferAlias = -1
	preferNone  = -2
)

// unread reports whether a node of the previous block says nothing now, or
// nothing that is followed: the block is not free for a clique that it has no
// node of.
func (p *planner) unread(b int) bool { return p.silent[b].kept+p.silent[b].doubtful > 0 }

// deserted reports whether the Node objects of all nodes that keep the block have gone.
// It is free for the clique that it is named after, as when they have left it: the
// same machines may be back under other names.
func (p *planner) deserted(b int) bool {
	s := &p.silent[b]
	return s.doubtful == 0 && s.kept == s.gone
}

// sameClique reports whether the previous block can be that of the group.
func (p *planner) sameClique(b, g int) bool {
	c := p.prev.Blocks[b].Clique
	return c.IsZero() || c == p.groups[g].clique
}

// keepUnread leaves nodes whose domain could not be read where they were.
func (p *planner) keepUnread(claims map[int]int) {
	for i := range p.facts {
		if !p.read[i].keep {
			continue
		}
		b := int(p.was[i])
		if b < 0 {
			continue
		}
		if g, ok := claims[b]; ok {
			p.groups[g].nodes = append(p.groups[g].nodes, i)
			p.plan.Placements[i].Source = string(fromPrevious)
		}
	}
	for g := range p.groups {
		if !slices.IsSorted(p.groups[g].nodes) {
			slices.Sort(p.groups[g].nodes)
		}
	}
}

// keepGone keeps the names of nodes that no longer exist in blocks that would
// otherwise fall below the published base block size, where the release would
// not start with such a block.
func (p *planner) keepGone() {
	for g := range p.groups {
		b := p.groups[g].prev
		if b < 0 || len(p.groups[g].nodes) >= p.prev.BaseBlockSize {
			continue
		}
		for _, n := range p.prev.Blocks[b].Nodes {
			if _, exists := p.find(n); !exists {
				p.groups[g].gone = append(p.groups[g].gone, n)
			}
		}
		if len(p.groups[g].gone) > 0 {
			p.problem("", ReasonKeptGone, fmt.Sprintf("block %s keeps %s, which no longer exist: with %d nodes it would be smaller than the base block size %d, and this Slurm release would not start",
				p.prev.Blocks[b].Name, strings.Join(p.groups[g].gone, ","), len(p.groups[g].nodes), p.prev.BaseBlockSize))
		}
	}
}

// nameGroups names every block: published names stay, new ones are the
// shortest that no other clique could have.
func (p *planner) nameGroups() {
	uses := make(map[string]int)
	for g := range p.groups {
		if p.groups[g].prev >= 0 {
			p.groups[g].name = p.prev.Blocks[p.groups[g].prev].Name
			uses[p.groups[g].name]++
			continue
		}
		for _, name := range p.groups[g].names {
			uses[name]++
		}
	}
	for g := range p.groups {
		if p.groups[g].name != "" {
			continue
		}
		names := p.groups[g].names
		p.groups[g].name = names[2]
		for _, name := range names {
			if uses[name] == 1 {
				p.groups[g].name = name
				break
			}
		}
	}
}

// dropSmall takes new groups below the policy's minimum out of the plan.
func (p *planner) dropSmall() {
	p.groups = slices.DeleteFunc(p.groups, func(g group) bool {
		if g.prev >= 0 || len(g.nodes) >= p.policy.MinBlockNodes {
			return false
		}
		for _, i := range g.nodes {
			p.leave(i, ReasonSmallDomain, fmt.Sprintf("its %s has %d node, and a block is made from %d on", &g, len(g.nodes), p.policy.MinBlockNodes))
		}
		return true
	})
}

// sizeBlocks settles the base block size and takes out new blocks that the
// release would refuse to start with.
func (p *planner) sizeBlocks() error {
	base := cmp.Or(p.policy.BaseBlockSize, p.prev.BaseBlockSize)
	if base == 0 {
		base = p.chooseBase()
	}
	if !p.policy.ShortBlocks {
		p.keepGone()
		p.dropShort(base)
	}
	if len(p.groups) == 0 || base == 0 {
		return nil
	}
	sizes, err := p.policy.sizes(base)
	if err != nil {
		return err
	}
	p.plan.BaseBlockSize, p.plan.BlockSizes = base, sizes
	for g := range p.groups {
		if n := len(p.groups[g].nodes); n > base {
			p.problem("", ReasonAboveBase, fmt.Sprintf("block %s has %d nodes, more than the base block size %d: Slurm places a job of more than %d nodes in two blocks; set the base block size to %d",
				p.groups[g].name, n, base, base, n))
		}
	}
	return nil
}

// chooseBase returns the largest group's size, or the smallest's where a short
// block would be fatal.
func (p *planner) chooseBase() int {
	base := 0
	for g := range p.groups {
		n := len(p.groups[g].nodes)
		if n == 0 {
			continue
		}
		if base == 0 || (n > base) == p.policy.ShortBlocks {
			base = n
		}
	}
	return base
}

// dropShort leaves out new blocks with fewer nodes than base, and placeholders.
func (p *planner) dropShort(base int) {
	p.groups = slices.DeleteFunc(p.groups, func(g group) bool {
		n := len(g.nodes) + len(g.gone)
		if g.prev >= 0 && n > 0 || n >= base {
			return false
		}
		for _, i := range g.nodes {
			p.leave(i, ReasonBelowBase, fmt.Sprintf("its %s has %d nodes, the base block size is %d, and this Slurm release does not start with a smaller block", &g, n, base))
		}
		return true
	})
}

// orderBlocks writes the blocks: published ones in their order, new ones after
// the last of their parent domain.
func (p *planner) orderBlocks() {
	var known, fresh []int
	for g := range p.groups {
		if p.groups[g].prev >= 0 {
			known = append(known, g)
		} else {
			fresh = append(fresh, g)
		}
	}
	slices.SortFunc(known, func(a, b int) int { return cmp.Compare(p.groups[a].prev, p.groups[b].prev) })
	parents := p.parentDomains()
	// Stable: groups are in the order of their cliques.
	slices.SortStableFunc(fresh, func(a, b int) int { return strings.Compare(parents[a], parents[b]) })
	if p.policy.ParentBlocks > 0 {
		p.writeBlocks(p.layOut(known, fresh, parents))
		return
	}
	p.writeBlocks(merge(known, fresh, parents))
}

// merge puts each fresh group after the last known one of its parent, or at the
// end.
func merge(known, fresh []int, parents []string) []int {
	last := make(map[string]int, len(known))
	for i, g := range known {
		last[parents[g]] = i
	}
	after := make([][]int, len(known)+1)
	for _, g := range fresh {
		at, ok := last[parents[g]]
		if !ok || parents[g] == "" {
			at = len(known)
		}
		after[at] = append(after[at], g)
	}
	order := make([]int, 0, len(known)+len(fresh))
	for i, g := range known {
		order = append(order, g)
		order = append(order, after[i]...)
	}
	return append(order, after[len(known)]...)
}

// writeBlocks fills the plan's blocks and the placements of their nodes. noBlock
// in the order is a place that is kept free.
func (p *planner) writeBlocks(order []int) {
	total := 0
	for _, g := range order {
		if g != noBlock {
			total += len(p.groups[g].nodes) + len(p.groups[g].gone)
		}
	}
	names := make([]string, total) // one array for all, each block with its share
	p.plan.Blocks = make([]Block, 0, len(order))
	for at, g := range order {
		if g == noBlock {
			p.plan.Blocks = append(p.plan.Blocks, Block{Name: p.spareName(at)})
			continue
		}
		grp := &p.groups[g]
		n := len(grp.nodes) + len(grp.gone)
		b := Block{Name: grp.name, Clique: grp.clique, Nodes: names[:0:n]}
		names = names[n:]
		for _, i := range grp.nodes {
			b.Nodes = append(b.Nodes, p.facts[i].SlurmName)
			pl := &p.plan.Placements[i]
			pl.Block = grp.name
			switch source(pl.Source) {
			case fromPrevious:
				pl.Message = "stays in its published block: " + pl.Message
			default:
				pl.Reason, pl.Message = ReasonPlaced, ""
			}
		}
		if len(grp.gone) > 0 {
			b.Nodes = append(b.Nodes, grp.gone...)
			slices.Sort(b.Nodes)
		}
		p.plan.Blocks = append(p.plan.Blocks, b)
	}
}
