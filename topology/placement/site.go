package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement/names"
)

// site is what a plan is made from. No stage changes it, but nodes may be kept in their
// places between two rounds of the stages.
type site struct {
	facts  []*topology.Facts // sorted by SlurmName
	prev   Previous          // without blocks of another kind than the plan's
	policy Policy            // with MinBlockNodes set
	// published, beside facts, is the index of the node's block in prev.Blocks, or none.
	published []int32
	// places, beside prev.Blocks, is the place of each in its topology.
	places []int
	// agents reports whether any node has a report, readable or not.
	agents bool
}

// none stands for no block, no group, no switch and no node.
const none = -1

// readSite sorts the facts and finds every node's published block. Two nodes of
// one Slurm name are an error.
func readSite(facts []topology.Facts, previous *Previous, policy Policy) (*site, error) {
	if err := policy.validate(); err != nil {
		return nil, err
	}
	s := &site{policy: policy, facts: make([]*topology.Facts, len(facts))}
	if s.policy.MinBlockNodes == 0 {
		s.policy.MinBlockNodes = 2
	}
	for i := range facts {
		s.facts[i] = &facts[i]
		s.agents = s.agents || facts[i].Report != nil || facts[i].ReportUnreadable
	}
	slices.SortFunc(s.facts, func(a, b *topology.Facts) int {
		return cmp.Or(strings.Compare(a.SlurmName, b.SlurmName), strings.Compare(a.Name, b.Name))
	})
	for i, f := range s.facts {
		if f.SlurmName == "" {
			return nil, fmt.Errorf("node %q has no Slurm name", f.Name)
		}
		if i > 0 && s.facts[i-1].SlurmName == f.SlurmName {
			return nil, fmt.Errorf("nodes %q and %q both have the Slurm name %q: give one of them another", s.facts[i-1].Name, f.Name, f.SlurmName)
		}
	}
	if previous != nil {
		s.prev = *previous
		s.leaveOutOtherKind()
		s.prev = s.prev.named(s.kind())
	}
	s.published, s.places = s.findPublished(), s.findPlaces()
	return s, nil
}

// findPublished returns the published block of every node. Blocks list their nodes
// sorted, so the next node of a block is mostly the next of facts.
func (s *site) findPublished() []int32 {
	published := slices.Repeat([]int32{none}, len(s.facts))
	next := 0
	for b := range s.prev.Blocks {
		for _, n := range s.prev.Blocks[b].Nodes {
			if next >= len(s.facts) || s.facts[next].SlurmName != n {
				at, ok := s.find(n)
				if !ok {
					continue
				}
				next = at
			}
			published[next] = int32(b)
			next++
		}
	}
	return published
}

// findPlaces returns the place of every published block in its topology.
func (s *site) findPlaces() []int {
	places, next := make([]int, len(s.prev.Blocks)), make(map[string]int)
	for i := range s.prev.Blocks {
		name := s.prev.Blocks[i].Topology
		places[i] = next[name]
		next[name]++
	}
	return places
}

// baseOf returns the base block size of the topology of a published block.
func (s *site) baseOf(block int) int {
	for i := range s.prev.Topologies {
		if t := &s.prev.Topologies[i]; t.Name == s.prev.Blocks[block].Topology && len(t.BlockSizes) > 0 {
			return t.BlockSizes[0]
		}
	}
	return s.prev.BaseBlockSize
}

// find returns the index of the node with a Slurm name.
func (s *site) find(slurmName string) (int, bool) {
	return slices.BinarySearchFunc(s.facts, slurmName, func(f *topology.Facts, name string) int { return strings.Compare(f.SlurmName, name) })
}

// block returns the index of the node's published block, or none.
func (s *site) block(node int) int { return int(s.published[node]) }

// inUse reports whether a block or leaf has to stay even if it is empty.
func (s *site) inUse(name string) bool { return s.policy.ShortBlocks && s.prev.InUse[name] }

// forgets reports whether a published block may leave the plan for good. A block
// with nodes stays all the same.
func (s *site) forgets(b *Block) bool {
	return slices.Contains(s.policy.Forget, b.Name) && !s.inUse(b.Name)
}

// isSpare reports whether a published block is a place that was kept free. No node
// was ever told its name.
func (s *site) isSpare(block int) bool {
	b := &s.prev.Blocks[block]
	return names.IsSpare(b.Name) && len(b.Nodes) == 0
}

// problems is what a stage found to be wrong.
type problems []topology.Problem

func (p *problems) add(node, reason, message string) {
	*p = append(*p, topology.Problem{Node: node, Reason: reason, Message: message})
}
