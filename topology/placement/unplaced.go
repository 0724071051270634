package placement

import (
	"slices"
	"strconv"
	"strings"
)

// The blocks and the leaf switch of nodes that fit nowhere.
const (
	fromUnplaced source = "unplaced"

	unplacedBlock  = "unplaced-"
	unplacedSwitch = "unplaced-nodes"
	unplacedTitle  = "share of the nodes that fit nowhere"
)

// isUnplaced reports whether a block is of nodes that fit nowhere.
func isUnplaced(block string) bool {
	number, ok := strings.CutPrefix(block, unplacedBlock)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// placeUnplaced puts the nodes that fit nowhere into blocks of their own, of at
// most base nodes each, for of a larger one Slurm would use no more. A node stays
// in the one that it is published in.
func (p *planner) placeUnplaced(base int) {
	if p.policy.OwnBlock == UnplacedNone || base == 0 {
		return
	}
	groupOf := make(map[int]int) // previous block -> group
	var own []int                // groups, in the order of their numbers
	for g := range p.groups {
		if p.groups[g].unplaced {
			groupOf[p.groups[g].prev] = g
			own = append(own, g)
		}
	}
	slices.SortFunc(own, func(a, b int) int { return unplacedNumber(p.groups[a].name) - unplacedNumber(p.groups[b].name) })
	var rest []int
	for i := range p.facts {
		if !p.fitsNoBlock(i) {
			continue
		}
		if p.was != nil {
			if g, ok := groupOf[int(p.was[i])]; ok {
				p.addUnplaced(g, i)
				continue
			}
		}
		rest = append(rest, i)
	}
	for _, i := range rest {
		at := slices.IndexFunc(own, func(g int) bool { return len(p.groups[g].nodes) < base })
		if at < 0 {
			at = len(own)
			number := 1
			if at > 0 {
				number = unplacedNumber(p.groups[own[at-1]].name) + 1
			}
			own = append(own, len(p.groups))
			p.groups = append(p.groups, group{prev: noBlock, unplaced: true, title: unplacedTitle, name: unplacedBlock + strconv.Itoa(number)})
		}
		p.addUnplaced(own[at], i)
	}
	for _, g := range own {
		slices.Sort(p.groups[g].nodes)
	}
}

func unplacedNumber(block string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(block, unplacedBlock))
	if err != nil {
		return 0 // longer than any that is written
	}
	return n
}

func (p *planner) addUnplaced(g, i int) {
	p.groups[g].nodes = append(p.groups[g].nodes, i)
	p.plan.Placements[i].Source = string(fromUnplaced)
}

// fitsNoBlock reports whether it is certain that no block will be the node's:
// one whose fabric is still to be read waits.
func (p *planner) fitsNoBlock(i int) bool {
	pl := &p.plan.Placements[i]
	if pl.Source != "" {
		return false
	}
	switch pl.Reason {
	case ReasonNoDomain:
		return !p.read[i].keep
	case ReasonSmallDomain, ReasonTiersMissing:
		return true
	case ReasonNoFacts:
		return !p.agents
	case ReasonNoGPUs:
		return p.policy.OwnBlock == UnplacedAll
	}
	return false
}

// placeUnswitched puts the nodes that no switch is known of below one of their
// own, which has no parent.
func (p *planner) placeUnswitched(t *tree, leaves []int) {
	if p.policy.OwnSwitch == UnplacedNone {
		return
	}
	for i, f := range p.facts {
		if leaves[i] == noSwitch && f.Stays == "" && !f.Gone && (p.read[i].hasGPUs || p.policy.OwnSwitch == UnplacedAll) {
			leaves[i] = t.unplaced()
		}
	}
}

// unplaced returns the switch of the nodes that fit nowhere.
func (t *tree) unplaced() int {
	for i := range t.prev {
		if t.prev[i].Name == unplacedSwitch && len(t.prev[i].Children) == 0 {
			return t.keep(i)
		}
	}
	return t.add(tierValue{0, unplacedSwitch})
}

// forgetUnplaced lets go the nodes that are published below that switch, where the
// site wants it no more.
func (t *tree) forgetUnplaced() {
	for i := range t.prev {
		if t.prev[i].Name == unplacedSwitch && len(t.prev[i].Children) == 0 {
			for _, n := range t.prev[i].Nodes {
				delete(t.leafOf, n)
			}
		}
	}
}
