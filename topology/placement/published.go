package placement

import (
	"cmp"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// published is what was published, without blocks of another kind than the plan's.
type published struct {
	// elsewhere: the plan's blocks go into a topology of another name. The published
	// topology stays beside it as long as it is in use.
	elsewhere bool
	// named: partitions may name the topologies. They do not name that of a topology.conf.
	named bool
	base  int
	// topologies are the block topologies. One of topology.conf has the name that the plan
	// gives it.
	topologies []topology.Topology
	// defaultName is the name of the default topology in the file. That of topology.conf is
	// the name of no part.
	defaultName string
	blocks      []*oldBlock
	blockOf     map[string]*oldBlock // by Slurm name
	switches    []topology.Switch
	source      string // of the switches
	reported    map[string]bool
}

// oldBlock is a published block.
type oldBlock struct {
	*topology.Block
	topology string
	// position is in its topology, and positionInAll among the blocks of all topologies. Both are from 1.
	position, positionInAll int
	// base is the base block size of its topology, or 0.
	base int
	// inUse: a node may still register with the block (Observed.InUse).
	inUse bool
	// follows: the block follows a change of NVLink partitions. It has the size that its nodes show now. divided is
	// the clique that keeps the block then, or zero.
	follows bool
	divided topology.Clique

	// nodes are its nodes, as far as there are facts of them.
	nodes []*node
	matching
}

// matching is what findPlaces finds of a published block.
type matching struct {
	domain *domain // that takes the block, or nil
	votes  votes
	// staying are its nodes that stay in it whatever their facts name.
	staying []*node
}

// room returns how many nodes the domain of the block is known to take.
func (b *oldBlock) room() int { return max(b.base, b.Size) }

// isSpare reports whether the block is a position that was kept free. No node was ever told its name.
func (b *oldBlock) isSpare() bool { return topology.IsSpareBlock(b.Name) && len(b.Nodes) == 0 }

// readPublished reads what was published. Blocks of another kind than the plan's are left out: leaves if NVLink
// domains are wanted, or the reverse. Blocks that a node may still register with stay, empty.
func readPublished(previous *Previous, inUse map[string]bool, policy *Policy) *published {
	old := &published{reported: previous.Reported}
	if previous.Plan == nil {
		return old
	}
	old.switches, old.source = previous.Plan.Switches(), previous.Plan.SwitchSource()
	nodes := 0
	for i, t := range previous.Plan.BlockTopologies() {
		if i == 0 {
			name := policy.kind()
			if policy.OneTopology {
				name = topology.ConfTopology
			}
			old.elsewhere = topology.BlockFamily(t.Name) != name
			old.named = t.Name != topology.ConfTopology && previous.Plan.ByLeaf == policy.ByLeaf
		}
		if t.Default {
			old.defaultName = t.Name
		}
		if t.Name == topology.ConfTopology {
			t.Name = policy.kind()
		}
		old.topologies = append(old.topologies, t)
		for k := range t.Blocks {
			b := &t.Blocks[k]
			nodes += len(b.Nodes)
			old.blocks = append(old.blocks, &oldBlock{Block: b, topology: t.Name, position: k + 1, positionInAll: len(old.blocks) + 1, inUse: inUse[b.Name]})
		}
	}
	if isOtherKind(previous.Plan, policy.ByLeaf) {
		old.leaveOutAll(policy)
		return old
	}
	old.base, old.blockOf = previous.Plan.BaseBlockSize(), make(map[string]*oldBlock, nodes)
	for _, b := range old.blocks {
		b.base = cmp.Or(old.baseOf(b.topology), old.base)
		for _, n := range b.Nodes {
			old.blockOf[n] = b
		}
	}
	return old
}

// leaveOutAll leaves out all blocks but the empty ones that stay.
func (old *published) leaveOutAll(policy *Policy) {
	all := old.blocks
	old.topologies, old.blocks = nil, nil
	for _, b := range all {
		if !old.elsewhere && b.inUse {
			at := len(old.blocks) + 1
			old.blocks = append(old.blocks, &oldBlock{Block: &topology.Block{Name: b.Name}, topology: policy.kind(), position: at, positionInAll: at, inUse: true})
		}
	}
	if len(old.blocks) > 0 {
		old.topologies = []topology.Topology{{Name: policy.kind()}}
	}
}

// topology returns a published topology by its name. It is zero without one.
func (old *published) topology(name string) topology.Topology {
	if at := slices.IndexFunc(old.topologies, func(t topology.Topology) bool { return t.Name == name }); at >= 0 {
		return old.topologies[at]
	}
	return topology.Topology{}
}

// baseOf returns the base block size of a published topology, or 0.
func (old *published) baseOf(name string) int {
	if sizes := old.topology(name).Sizes; len(sizes) > 0 {
		return sizes[0]
	}
	return 0
}

// isOtherKind reports whether the nodes of a published plan are in blocks of another kind. An
// empty block was left before, and a topology.conf does not tell.
func isOtherKind(old *topology.Plan, byLeaf bool) bool {
	if !byLeaf {
		return old.ByLeaf
	}
	return !old.ByLeaf && slices.ContainsFunc(old.Blocks(), func(b topology.Block) bool {
		return len(b.Nodes) > 0 && (topology.IsCliqueBlock(b.Name) || topology.IsLabelBlock(b.Name))
	})
}
