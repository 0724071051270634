package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// site is what a plan is made from. No stage changes it, but nodes may be kept in their
// places between two rounds of the stages.
type site struct {
	facts   []*topology.Facts  // sorted by SlurmName
	unnamed []topology.Facts   // of nodes without a name in Slurm
	prev    published          // without blocks of another kind than the plan's
	policy  Policy             // with MinBlockNodes set
	ofSite  []topology.Finding // about the NVLink fabrics of no single node
	// published, beside facts, is the index of the node's block in prev.blocks, or none.
	published []int32
	// named are the blocks and leaves that a node may still register with (Observed.InUse).
	named map[string]bool
	// domainLabel is the key of the one label whose values name NVLink domains.
	domainLabel string
	// agents reports whether any node has a report, readable or not.
	agents bool
	// follows are the changes of NVLink partitions that the plan follows. heldBack are the nodes that stay
	// because such a change is held, by their index in facts, and inPartitions says so.
	follows      []*repartition
	heldBack     leftOut
	inPartitions problems
}

// none stands for no block, no group, no switch and no node.
const none = -1

// published is what was published, as the stages read it.
type published struct {
	// otherKind: the blocks are of another kind than the plan's.
	otherKind bool
	// elsewhere: the plan's blocks go into a topology of another name. The published
	// topology stays beside it as long as it is in use.
	elsewhere bool
	base      int
	// topologies are the block topologies. One of topology.conf has the name that the plan
	// gives it.
	topologies []topology.Topology
	// defaultName is the name of the default topology in the file. That of topology.conf is
	// the name of no part.
	defaultName string
	blocks      []publishedBlock
	switches    []topology.Switch
	source      string // of the switches
	reported    map[string]bool
}

// publishedBlock is a block in its topology.
type publishedBlock struct {
	*topology.Block
	topology string
	place    int // in the topology
}

// readPublished reads what was published.
func readPublished(previous *Previous, policy *Policy) published {
	prev := published{reported: previous.Reported}
	if previous.Plan == nil {
		return prev
	}
	prev.otherKind, prev.base = isOtherKind(previous.Plan, policy.ByLeaf), previous.Plan.BaseBlockSize()
	prev.switches, prev.source = previous.Plan.Switches(), previous.Plan.SwitchSource()
	for i, t := range previous.Plan.BlockTopologies() {
		if i == 0 {
			name := policy.kind()
			if policy.OneTopology {
				name = topology.ConfTopology
			}
			prev.elsewhere = topology.BlockFamily(t.Name) != name
		}
		if t.Default {
			prev.defaultName = t.Name
		}
		if t.Name == topology.ConfTopology {
			t.Name = policy.kind()
		}
		prev.topologies = append(prev.topologies, t)
		for k := range t.Blocks {
			prev.blocks = append(prev.blocks, publishedBlock{&t.Blocks[k], t.Name, k})
		}
	}
	return prev
}

// readSite sorts the facts and finds every node's published block. Two nodes of
// one Slurm name are an error.
func readSite(o *Observed, previous *Previous, policy Policy) (*site, error) {
	facts := o.Facts
	if err := policy.validate(); err != nil {
		return nil, err
	}
	s := &site{policy: policy, named: o.InUse, heldBack: leftOut{}, unnamed: o.Unnamed, ofSite: o.OfFabrics, facts: make([]*topology.Facts, len(facts))}
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
	s.domainLabel = s.chooseDomainLabel()
	s.prev = readPublished(previous, &policy)
	s.leaveOutOtherKind()
	s.published = s.findPublished()
	return s, nil
}

// factsAt returns the facts of a node: first of those with a name in Slurm, then of the others.
func (s *site) factsAt(i int) *topology.Facts {
	if i < len(s.facts) {
		return s.facts[i]
	}
	return &s.unnamed[i-len(s.facts)]
}

// findPublished returns the published block of every node.
func (s *site) findPublished() []int32 {
	published := slices.Repeat([]int32{none}, len(s.facts))
	for b := range s.prev.blocks {
		for _, n := range s.prev.blocks[b].Nodes {
			if at, ok := s.find(n); ok {
				published[at] = int32(b)
			}
		}
	}
	return published
}

// baseOf returns the base block size of the topology of a published block.
func (s *site) baseOf(block int) int {
	return cmp.Or(s.publishedBase(s.prev.blocks[block].topology), s.prev.base)
}

// publishedBase returns the base block size of a published topology, or 0.
func (s *site) publishedBase(name string) int {
	for i := range s.prev.topologies {
		if t := &s.prev.topologies[i]; t.Name == name && len(t.Sizes) > 0 {
			return t.Sizes[0]
		}
	}
	return 0
}

// find returns the index of the node with a Slurm name.
func (s *site) find(slurmName string) (int, bool) {
	return slices.BinarySearchFunc(s.facts, slurmName, func(f *topology.Facts, name string) int { return strings.Compare(f.SlurmName, name) })
}

// block returns the index of the node's published block, or none.
func (s *site) block(node int) int { return int(s.published[node]) }

// inUse reports whether a block or leaf has to stay even if it is empty.
func (s *site) inUse(name string) bool { return s.named[name] }

// forgets reports whether a published block may leave the plan for good. A block
// with nodes stays all the same, and so does a block of a topology that is kept.
func (s *site) forgets(b *publishedBlock) bool {
	return slices.Contains(s.policy.Forget, b.Name) && s.mayGo(b)
}

// mayGo reports whether a published block may leave the plan if it is empty.
func (s *site) mayGo(b *publishedBlock) bool {
	return !s.inUse(b.Name) && s.policy.keeps(TopologiesChange, b.topology) == nil
}

// cliqueOf returns the NVLink domain that a block is, as far as NVML's form of it is known.
func (s *site) cliqueOf(b *block) topology.Clique {
	switch {
	case b.twin:
		return topology.Clique{}
	case b.clique.IsZero() && b.published != none:
		return s.prev.blocks[b.published].Clique
	}
	return b.clique
}

// isSpare reports whether a published block is a place that was kept free. No node
// was ever told its name.
func (s *site) isSpare(block int) bool {
	b := &s.prev.blocks[block]
	return topology.IsSpareBlock(b.Name) && len(b.Nodes) == 0
}

// problems is what a stage found to be wrong.
type problems []topology.Finding

func (p *problems) add(node, reason, message string) {
	*p = append(*p, topology.Finding{Subject: topology.Subject{Node: node}, Reason: reason, Message: message})
}
