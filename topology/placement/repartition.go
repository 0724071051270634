package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

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

	blocks []*oldBlock
	// takes is the clique that keeps a block, by the name of the block.
	takes map[string]topology.Clique
	// changed are the nodes that are in another clique than their block and ran all the time. silent are
	// the nodes of Unknown that may say more soon.
	changed, silent []*node
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

// Moves returns the nodes that get another block, or none, if the plan follows the change.
func (r *Repartition) Moves() (nodes []string) {
	for i := range r.Parts {
		if p := &r.Parts[i]; r.takes[p.Block] != p.Clique {
			nodes = append(nodes, p.Nodes...)
		}
	}
	return nodes
}

// hasChanged reports whether the node is in another clique than its published block, and has not been
// rebooted since it was in that one or in a third.
func (n *node) hasChanged() bool {
	return n.Report != nil && n.Report.DomainChanged && n.old != nil && n.Stays == "" && !n.Gone &&
		!n.old.Clique.IsZero() && !n.Report.Domain.Clique.IsZero() && n.Report.Domain.Clique != n.old.Clique
}

// findRepartitions finds what changed while nodes ran.
func findRepartitions(nodes []*node, old *published) (found []*Repartition) {
	changed := slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return !n.hasChanged() })
	if len(changed) == 0 {
		return nil
	}
	// Blocks that have or get nodes of one clique are one change.
	first := make(map[topology.Clique]*oldBlock)
	for _, b := range old.blocks {
		if !b.Clique.IsZero() && len(b.Nodes) > 0 {
			first[b.Clique] = b
		}
	}
	of := make(map[*oldBlock]*Repartition)
	join := func(b *oldBlock, r *Repartition) {
		joined := of[b]
		if joined == nil {
			joined = &Repartition{blocks: []*oldBlock{b}}
		}
		if joined != r {
			r.blocks = append(r.blocks, joined.blocks...)
		}
		for _, b := range r.blocks {
			of[b] = r
		}
	}
	for _, n := range changed {
		if of[n.old] == nil {
			join(n.old, &Repartition{})
		}
		clique := n.Report.Domain.Clique
		if first[clique] == nil {
			first[clique] = n.old
		}
		join(first[clique], of[n.old])
	}
	for _, b := range old.blocks {
		r := of[b]
		if r == nil {
			continue
		}
		if len(r.Blocks) == 0 {
			r.blocks, found = nil, append(found, r)
		}
		r.blocks, r.Blocks, r.From = append(r.blocks, b), append(r.Blocks, b.Name), append(r.From, b.Clique)
	}
	for _, n := range changed {
		of[n.old].changed = append(of[n.old].changed, n)
	}
	for _, n := range nodes {
		if r := of[n.old]; r != nil {
			r.take(n)
		}
	}
	for _, r := range found {
		slices.SortStableFunc(r.Parts, func(a, b BlockPart) int {
			return cmp.Or(cmp.Compare(slices.Index(r.Blocks, a.Block), slices.Index(r.Blocks, b.Block)), a.Clique.Compare(b.Clique))
		})
		r.divide()
	}
	return found
}

// divide gives each block of the change to the largest part of its nodes, of equals to the lower clique. A part whose
// clique is another published block joins that one.
func (r *Repartition) divide() {
	r.takes = make(map[string]topology.Clique)
	taken := make(map[topology.Clique]bool)
	of := func(p *BlockPart) topology.Clique { return r.From[slices.Index(r.Blocks, p.Block)] }
	bySize := slices.Clone(r.Parts)
	slices.SortStableFunc(bySize, func(a, b BlockPart) int {
		return cmp.Or(cmp.Compare(len(b.Nodes), len(a.Nodes)), a.Clique.Compare(b.Clique), of(&a).Compare(of(&b)))
	})
	for i := range bySize {
		p := &bySize[i]
		_, known := r.takes[p.Block]
		ofOther := p.Clique != of(p) && slices.Contains(r.From, p.Clique)
		if !known && !taken[p.Clique] && !ofOther {
			r.takes[p.Block], taken[p.Clique] = p.Clique, true
		}
	}
}

// take takes a node of one of the blocks.
func (r *Repartition) take(n *node) {
	var clique topology.Clique
	if n.Report != nil && n.Stays == "" && !n.Gone && n.Report.Joined() == n.Report.Domain {
		clique = n.Report.Domain.Clique
	}
	if clique.IsZero() {
		r.Unknown = append(r.Unknown, n.SlurmName)
		if n.Stays == "" && !n.Gone {
			r.silent = append(r.silent, n)
		}
		return
	}
	at := indexOrAdd(&r.Parts, func(p BlockPart) bool { return p.Block == n.old.Name && p.Clique == clique }, BlockPart{Block: n.old.Name, Clique: clique})
	r.Parts[at].Nodes = append(r.Parts[at].Nodes, n.SlurmName)
}

// followPartitions lets nodes follow the partitions that changed while they ran. All nodes of a change
// stay while a node of it has not said the same for long enough, and while the change waits for people.
func (w *Waiting) followPartitions(nodes []*node, old *published, settling *Settling, policy *Policy) (found problems) {
	if policy.ByLeaf {
		return nil
	}
	for _, r := range findRepartitions(nodes, old) {
		w.Divides = true
		all, waits := slices.Concat(r.changed, r.silent), false
		for _, n := range all {
			w.Moving[n.SlurmName] = true
			waits = waits || settling != nil && settling.Unsettled[n.SlurmName]
		}
		if !waits {
			w.Settled = append(w.Settled, r)
			continue
		}
		for _, n := range all {
			w.letStay(n, "its NVLink partition was changed while it ran, but not for long enough yet")
		}
	}
	for _, r := range w.Settled {
		d, why := r.Decision(), ""
		if policy.LookFirst != nil {
			why = policy.LookFirst(r, w.Settled)
		}
		message := fmt.Sprintf("%s; %s; until it is approved the nodes stay in the blocks that they are published in", r, why)
		if why == "" || policy.follow(Choice{Decision: d, Message: message}) == nil {
			for _, b := range r.blocks {
				b.follows, b.divided = true, r.takes[b.Name]
			}
			w.Follows = append(w.Follows, *r)
			continue
		}
		for _, name := range r.Moves() {
			w.Held[name] = true
		}
		for _, n := range r.changed {
			n.held = fmt.Sprintf("%s; the node stays until somebody approves the change %s", r, d.Digest())
		}
		found.add("", Repartitioned, fmt.Sprintf("%s; block %s stays as it is published until somebody approves the change %s", r, strings.Join(r.Blocks, ", "), d.Digest()))
	}
	return found
}
