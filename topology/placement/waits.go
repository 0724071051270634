package placement

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// Settling says which nodes may not move yet. A node that waits stays where it is published.
// One that is published nowhere has no place yet.
type Settling struct {
	// Unsettled are published nodes whose facts have not been the same for long enough, by
	// Slurm name.
	Unsettled map[string]bool
	// Waited are nodes of new blocks that have waited for long enough for a known switch above
	// their leaf. With Policy.ParentBlocks the nodes of a new block wait for one, because a
	// block keeps its first place, unless one of them is in Waited.
	Waited map[string]bool
}

// Waiting is what a plan found of nodes that wait or have waited, by Slurm name.
type Waiting struct {
	// Moving are the published nodes that move or wait to be moved.
	Moving map[string]bool
	// Unsited are the nodes of each new block without a known switch above its leaf.
	Unsited [][]string
	// Stay are the nodes that wait.
	Stay map[string]bool
	// Follows are the changes of NVLink partitions that the plan follows.
	Follows []Repartition
	// Choices are the decisions that the plan met, beside those about Follows.
	Choices []Choice
	// Divides: NVLink partitions changed while published nodes ran. The plan may not follow that yet.
	Divides bool
}

// hold keeps the nodes in their places that the plan moves before their time. It reports
// whether it keeps any more: then the plan needs another round.
func (w *Waiting) hold(s *site, settling *Settling, old, plan *topology.Plan) bool {
	if old == nil || settling == nil {
		return false
	}
	held := len(w.Stay)
	var unsited []topology.Block
	if s.policy.ParentBlocks > 0 && old.BaseBlockSize() > 0 {
		if blocks, others := WithoutParent(old, plan); others {
			unsited = blocks
		}
	}
	for i := range unsited {
		w.Unsited = append(w.Unsited, unsited[i].Nodes)
		if !slices.ContainsFunc(unsited[i].Nodes, func(n string) bool { return settling.Waited[n] }) {
			w.stay(s, unsited[i].Nodes, "its block is new, and no switch above its leaf is known yet")
		}
	}
	if len(w.Stay) > held {
		return true
	}
	moved, _ := Moved(old, plan)
	for _, n := range moved {
		w.Moving[n] = true
		if settling.Unsettled[n] {
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
