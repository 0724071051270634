package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Repartitioned is the kind of a decision: NVLink partitions were changed while published nodes ran, and
// the nodes would follow. It is also the reason of nodes that stay meanwhile.
const Repartitioned = "Repartitioned"

// Repartition is one change of NVLink partitions: published blocks whose nodes are in other cliques
// now, although the nodes were not rebooted. Blocks of which nodes come into one clique are one change.
type Repartition struct {
	// Blocks are the published blocks, and From their cliques, in the order of the plan.
	Blocks []string
	From   []topology.Clique
	// Parts are the nodes of each block that are in one clique now.
	Parts []BlockPart
	// Unknown are nodes of the blocks that name no clique now, or one that is not confirmed.
	Unknown []string
}

// BlockPart is the nodes of a published block that are in one clique now, by Slurm name.
type BlockPart struct {
	Block  string
	Clique topology.Clique
	Nodes  []string
}

// Decision returns the change as a decision. It names no nodes.
func (r *Repartition) Decision() Decision {
	var to []topology.Clique
	for i := range r.Parts {
		to = append(to, r.Parts[i].Clique)
	}
	slices.SortFunc(to, topology.Clique.Compare)
	return Decision{Kind: Repartitioned, Subject: strings.Join(r.Blocks, ", "), From: cliques(r.From), To: cliques(slices.Compact(to))}
}

func cliques(all []topology.Clique) string {
	texts := make([]string, len(all))
	for i, c := range all {
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}

// String says for people what has changed.
func (r *Repartition) String() string {
	parts := make([]string, len(r.Parts))
	for i := range r.Parts {
		p := &r.Parts[i]
		parts[i] = fmt.Sprintf("%s of block %s in clique %s", someNodes(p.Nodes), p.Block, p.Clique)
	}
	return "NVLink partitions were changed while nodes ran: now " + strings.Join(parts, ", ")
}

// someNodes counts nodes, and names the first ones.
func someNodes(names []string) string {
	const named = 3
	switch n := len(names); {
	case n == 1:
		return "node " + names[0]
	case n <= named:
		return fmt.Sprintf("%d nodes (%s)", n, strings.Join(names, ", "))
	default:
		return fmt.Sprintf("%d nodes (%s, ...)", n, strings.Join(names[:named], ", "))
	}
}

// Moves returns the nodes of the change that a plan puts into another block, or into none.
func (r *Repartition) Moves(plan *topology.Plan) (nodes []string) {
	places := plan.Places()
	for i := range r.Parts {
		for _, n := range r.Parts[i].Nodes {
			if places[n].Block != r.Parts[i].Block {
				nodes = append(nodes, n)
			}
		}
	}
	return nodes
}

// repartition is a Repartition as the stages see it.
type repartition struct {
	Repartition
	blocks []int // published blocks
	// changed are the nodes that are in another clique than their block and ran all the time, and
	// silent those of unknown that may say more soon.
	changed, silent []int
}

// hasChanged reports whether the node is in another clique than its published block, and has not been
// rebooted since it was in that one or in a third.
func (s *site) hasChanged(i int) bool {
	f, b := s.facts[i], s.block(i)
	return f.Report != nil && f.Report.DomainChanged && b != none && f.Stays == "" && !f.Gone &&
		!s.prev.blocks[b].Clique.IsZero() && !f.Report.Domain.Clique.IsZero() && f.Report.Domain.Clique != s.prev.blocks[b].Clique
}

// findRepartitions finds what changed while nodes ran.
func (s *site) findRepartitions() []*repartition {
	if s.policy.ByLeaf {
		return nil
	}
	var changed []int
	for i := range s.facts {
		if s.hasChanged(i) {
			changed = append(changed, i)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	// Blocks that have or get nodes of one clique are one change.
	of, first := make(map[int]int), make(map[topology.Clique]int)
	for b := range s.prev.blocks {
		if published := &s.prev.blocks[b]; !published.Clique.IsZero() && len(published.Nodes) > 0 {
			first[published.Clique] = b
		}
	}
	root := func(b int) int {
		for {
			up, ok := of[b]
			if !ok || up == b {
				of[b] = b
				return b
			}
			b = up
		}
	}
	for _, i := range changed {
		b, clique := s.block(i), s.facts[i].Report.Domain.Clique
		if other, ok := first[clique]; ok {
			x, y := root(b), root(other)
			of[max(x, y)] = min(x, y)
		} else {
			root(b)
			first[clique] = b
		}
	}
	found := make(map[int]*repartition)
	for _, b := range slices.Sorted(maps.Keys(of)) {
		at := root(b)
		if found[at] == nil {
			found[at] = &repartition{}
		}
		r := found[at]
		r.blocks, r.Blocks, r.From = append(r.blocks, b), append(r.Blocks, s.prev.blocks[b].Name), append(r.From, s.prev.blocks[b].Clique)
	}
	for _, i := range changed {
		r := found[root(s.block(i))]
		r.changed = append(r.changed, i)
	}
	for i := range s.facts {
		if b := s.block(i); b != none {
			if _, is := of[b]; is {
				found[root(b)].take(s, i)
			}
		}
	}
	out := make([]*repartition, 0, len(found))
	for _, at := range slices.Sorted(maps.Keys(found)) {
		r := found[at]
		slices.SortStableFunc(r.Parts, func(a, b BlockPart) int {
			return cmp.Or(cmp.Compare(slices.Index(r.Blocks, a.Block), slices.Index(r.Blocks, b.Block)), a.Clique.Compare(b.Clique))
		})
		out = append(out, r)
	}
	return out
}

// take takes a node of one of the blocks.
func (r *repartition) take(s *site, i int) {
	f, name := s.facts[i], s.prev.blocks[s.block(i)].Name
	var clique topology.Clique
	if f.Report != nil && f.Stays == "" && !f.Gone && f.Report.Joined() == f.Report.Domain {
		clique = f.Report.Domain.Clique
	}
	if clique.IsZero() {
		r.Unknown = append(r.Unknown, f.SlurmName)
		if f.Stays == "" && !f.Gone {
			r.silent = append(r.silent, i)
		}
		return
	}
	at := slices.IndexFunc(r.Parts, func(p BlockPart) bool { return p.Block == name && p.Clique == clique })
	if at < 0 {
		at = len(r.Parts)
		r.Parts = append(r.Parts, BlockPart{Block: name, Clique: clique})
	}
	r.Parts[at].Nodes = append(r.Parts[at].Nodes, f.SlurmName)
}

// followPartitions lets nodes follow the partitions that changed while they ran. All nodes of a change
// stay while a node of it has not said the same for long enough, and while the change is held.
func (s *site) followPartitions(w *Waiting, settling *Settling) {
	for _, r := range s.findRepartitions() {
		waits := false
		w.Divides = true
		for _, i := range slices.Concat(r.changed, r.silent) {
			name := s.facts[i].SlurmName
			w.Moving[name] = true
			waits = waits || settling != nil && settling.Unsettled[name]
		}
		d := s.policy.keeps(Repartitioned, r.Decision().Subject)
		switch {
		case d != nil:
			why := fmt.Sprintf("%s; the node stays until somebody approves the change %s", &r.Repartition, d.Digest())
			s.heldBack.add(r.changed, Repartitioned, why)
			s.inPartitions.add("", Repartitioned, fmt.Sprintf("%s; block %s stays as it is published until somebody approves the change %s", &r.Repartition, strings.Join(r.Blocks, ", "), d.Digest()))
		case waits:
			for _, i := range slices.Concat(r.changed, r.silent) {
				w.stay(s, []string{s.facts[i].SlurmName}, "its NVLink partition was changed while it ran, but not for long enough yet")
			}
		default:
			s.follows = append(s.follows, r)
			w.Follows = append(w.Follows, r.Repartition)
		}
	}
}

// claimDivided gives the block of each change that the plan follows to the largest part of its nodes, of
// equals to the lower clique. A part whose clique is another published block joins that one.
func (s *site) claimDivided(g grouping, c *claims) {
	for _, r := range s.follows {
		var matches []match
		for i := range r.Parts {
			p := &r.Parts[i]
			b := r.blocks[slices.Index(r.Blocks, p.Block)]
			own := slices.ContainsFunc(r.blocks, func(other int) bool { return other != b && s.prev.blocks[other].Clique == p.Clique })
			at := slices.IndexFunc(g.groups, func(grp group) bool { return grp.clique == p.Clique })
			if at >= 0 && !own {
				matches = append(matches, match{group: at, block: b, common: len(p.Nodes)})
			}
		}
		slices.SortStableFunc(matches, func(x, y match) int {
			return cmp.Or(cmp.Compare(y.common, x.common), g.groups[x.group].clique.Compare(g.groups[y.group].clique), s.prev.blocks[x.block].Clique.Compare(s.prev.blocks[y.block].Clique))
		})
		for _, m := range matches {
			c.take(m)
		}
	}
}

// isDivided reports whether a published block follows a change of partitions: it has the size that its
// nodes show now.
func (s *site) isDivided(block int) bool {
	return slices.ContainsFunc(s.follows, func(r *repartition) bool { return slices.Contains(r.blocks, block) })
}
