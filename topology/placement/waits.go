package placement

import "slices"

// Settling says which nodes may not move yet. A node that waits stays where it is published.
// One that is published nowhere has no place yet.
type Settling struct {
	// Unsettled are published nodes whose facts have not been the same for long enough, by
	// Slurm name.
	Unsettled map[string]bool
	// ForParents: the nodes of a new block wait for a known switch above their leaf, because
	// a block keeps its first place. A block waits no more if one of its nodes is in Waited.
	ForParents bool
	Waited     map[string]bool
}

// Waiting is what a plan found of nodes that wait or have waited, by Slurm name.
type Waiting struct {
	// Moving are the published nodes that move or wait to be moved.
	Moving map[string]bool
	// Unsited are the nodes of each new block without a known switch above its leaf.
	Unsited [][]string
	// Stay are the nodes that wait.
	Stay map[string]bool
}

// hold keeps the nodes in their places that the plan moves before their time. It reports
// whether it keeps any more: then the plan needs another round.
func (w *Waiting) hold(s *site, previous *Previous, plan *Plan) bool {
	if previous == nil || previous.Settling == nil {
		return false
	}
	held := len(w.Stay)
	if blocks, others := plan.WithoutParent(previous); previous.Settling.ForParents && others {
		for i := range blocks {
			w.Unsited = append(w.Unsited, blocks[i].Nodes)
			if !slices.ContainsFunc(blocks[i].Nodes, func(n string) bool { return previous.Settling.Waited[n] }) {
				w.stay(s, blocks[i].Nodes, "its block is new, and no switch above its leaf is known yet")
			}
		}
	}
	if len(w.Stay) > held {
		return true
	}
	moved, _ := Moved(previous, plan)
	for _, n := range moved {
		w.Moving[n] = true
		if previous.Settling.Unsettled[n] {
			w.stay(s, []string{n}, "its facts name another place, but not for long enough yet")
		}
	}
	return len(w.Stay) > held
}

// stay keeps nodes where they are published. The facts of others are not changed.
func (w *Waiting) stay(s *site, names []string, why string) {
	for _, n := range names {
		if i, ok := s.find(n); ok && !s.facts[i].Gone && s.facts[i].Stays == "" {
			f := *s.facts[i]
			f.Stays, s.facts[i] = why, &f
			w.Stay[n] = true
		}
	}
}
