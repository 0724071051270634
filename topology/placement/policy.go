package placement

import (
	"fmt"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// Policy is what a site decides about its plan.
type Policy struct {
	// BaseBlockSize is the first of Slurm's BlockSizes. 0 lets the domains choose it: the
	// largest size that at least half of a size class reach and that makes at most one size
	// of jobs in ten impossible.
	BaseBlockSize int
	// BlockSizes are further sizes, ascending, each base x 2^k with k of 1 to 15.
	BlockSizes []int
	// MaxDomainGPUs says how many GPUs an NVLink domain may have, where the site knows that better.
	MaxDomainGPUs fabric.Bounds
	// Forget names blocks that leave the plan for good. A block with nodes stays,
	// even if nobody can read them now. A block in use stays too (Observed.InUse).
	Forget []string
	// ForgetSwitches names leaf switches without nodes that leave the plan for good. A
	// switch with nodes, and a leaf in use, stay.
	ForgetSwitches []string
	// EmptyLeaves: the Slurm release starts with a leaf switch that has no nodes (25.05 and newer).
	EmptyLeaves bool
	// Tiers is how many tiers of switches the site has; 0 does not say. A
	// published switch of a further tier stays only while nodes name it.
	Tiers int
	// Cables: the site has the cables of its fabrics read.
	Cables bool
	// ByLeaf makes a block of the nodes below each leaf switch, for sites without
	// NVLink between nodes.
	ByLeaf bool
	// ParentBlocks is how many base blocks the domain above them takes, such as the
	// racks below one spine: a power of two, 0 for none. Each such domain begins
	// at a multiple of ParentBlocks. Free positions have placeholders. base x
	// ParentBlocks is one of the sizes.
	ParentBlocks int
	// Flat: the site has asked for a topology without places, so nobody needs to name switches.
	Flat bool
	// TreeOnly: the blocks are not published, so their sizes are nobody's problem.
	TreeOnly bool
	// BlocksOnly: the switches are not published.
	BlocksOnly bool
	// OtherDefault: partitions that name no topology have one without blocks, because the site says so.
	OtherDefault bool
	// Annotates: annotations tell Slurm's nodes their place, so Observed.InUse counts for whole topologies.
	Annotates bool
	// SizeClasses are the base block sizes of the classes of racks, the largest first. Each has a
	// block topology of its own. Without any, racks of all sizes are in one.
	SizeClasses []int
	// OneTopology: the file holds one topology. That of most GPUs stays, and nodes of the
	// others are left out.
	OneTopology bool
	// RootSwitch names the switch above all others. Empty: the site does not say that there is
	// one, so switches that nothing joins get a common root unless they are known to be
	// separate fabrics.
	RootSwitch string
	// SeparateFabrics: switches without a common one above them are separate fabrics.
	SeparateFabrics bool
	// Waits reports whether a decision waits for people. Then the plan keeps the published choice, and a new rack
	// that no published topology could take has no place. Nil: no decision waits.
	Waits func(Decision) bool
	// LookFirst says why people decide whether nodes follow a change of NVLink partitions. It returns "" if nobody needs
	// to. all are the changes that have lasted for long enough. Nil: nobody needs to.
	LookFirst func(change *Repartition, all []*Repartition) (why string)
	// met are the decisions that the plan has met.
	met []Choice
}

func (p *Policy) validate() error {
	if p.BaseBlockSize < 0 || p.BaseBlockSize > MaxBlockSize {
		return fmt.Errorf("base block size %d: want 1 to %d, or 0 to choose it", p.BaseBlockSize, MaxBlockSize)
	}
	if err := CheckSizeClasses(p.SizeClasses); err != nil {
		return err
	}
	return CheckParentBlocks(p.ParentBlocks)
}

// minBlockNodes is how many nodes a domain needs to become a block. A machine whose NVLink ends inside the
// chassis may report a domain of one node. A leaf switch with one node is one all the same.
func (p *Policy) minBlockNodes() int {
	if p.ByLeaf {
		return 1
	}
	return 2
}

// kind is the name of the block topology if there is one only. Other names begin with it.
func (p *Policy) kind() string {
	if p.ByLeaf {
		return topology.LeafTopology
	}
	return topology.NVLinkTopology
}
