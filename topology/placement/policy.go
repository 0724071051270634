package placement

import (
	"fmt"
	"math/bits"
	"slices"
)

// Policy is what a site decides about its plan.
type Policy struct {
	// ShortBlocks: the Slurm release starts with blocks that have fewer nodes than
	// the base block size, or none (25.05 and newer).
	ShortBlocks bool
	// BaseBlockSize is the first of Slurm's BlockSizes. 0 chooses the published
	// size. If none is published, it chooses the size of the largest domain with
	// ShortBlocks, else of the smallest.
	BaseBlockSize int
	// BlockSizes are further sizes, ascending, each base x 2^k with k of 1 to 15.
	BlockSizes []int
	// MinBlockNodes is how many nodes an NVLink domain needs to become a block. 0
	// means 2, because machines whose NVLink ends inside the chassis may report a
	// domain of one node.
	MinBlockNodes int
	// Forget names blocks that leave the plan for good. A block with nodes stays,
	// even if nobody can read them now. A block in use stays too (Previous.InUse).
	Forget []string
	// ForgetSwitches names leaf switches without nodes that leave the plan for good. A
	// switch with nodes, and a leaf in use, stay.
	ForgetSwitches []string
	// Tiers is how many tiers of switches the site has; 0 does not say. A
	// published switch of a further tier stays only while nodes name it.
	Tiers int
	// ByLeaf makes a block of the nodes below each leaf switch, for sites without
	// NVLink between nodes.
	ByLeaf bool
	// ParentBlocks is how many base blocks the domain above them takes, such as the
	// racks of a scalable unit: a power of two, 0 for none. Each such domain begins
	// at a multiple of ParentBlocks. Free places have placeholders. base x
	// ParentBlocks is one of the sizes. It needs ShortBlocks.
	ParentBlocks int
	// TreeOnly: the blocks are not published, so their sizes are nobody's problem.
	TreeOnly bool
}

// MaxBlockSize is Slurm's limit on the base block size. A larger one ends slurmctld
// without a message.
const MaxBlockSize = 65535

// maxBlockSizeLevel is Slurm's limit on k in base x 2^k.
const maxBlockSizeLevel = 15

// CheckBlockSizes returns what is wrong with further block sizes. base is 0 if it
// is not known yet.
func CheckBlockSizes(base int, further []int) error {
	if len(further) == 0 {
		return nil
	}
	if base == 0 {
		base = further[0] // a base of any size below it leaves the ratios after it
	}
	if base < 1 {
		return fmt.Errorf("block size %d: want 1 or more", base)
	}
	_, err := blockSizes(base, further)
	return err
}

func (p *Policy) validate() error {
	if p.BaseBlockSize < 0 || p.BaseBlockSize > MaxBlockSize {
		return fmt.Errorf("base block size %d: want 1 to %d, or 0 to choose it", p.BaseBlockSize, MaxBlockSize)
	}
	if p.MinBlockNodes < 0 {
		return fmt.Errorf("minimum of nodes in a block %d: want 1 or more, or 0 for 2", p.MinBlockNodes)
	}
	if p.ParentBlocks != 0 && !p.ShortBlocks {
		return fmt.Errorf("%d blocks in a parent domain: want none, for this Slurm release takes no placeholders", p.ParentBlocks)
	}
	return CheckParentBlocks(p.ParentBlocks)
}

// CheckParentBlocks returns what is wrong with a number of blocks in a parent
// domain.
func CheckParentBlocks(n int) error {
	if n != 0 && (n < 2 || n > 1<<maxBlockSizeLevel || bits.OnesCount(uint(n)) != 1) {
		return fmt.Errorf("%d blocks in a parent domain: want a power of two of 2 to %d, or 0 for none", n, 1<<maxBlockSizeLevel)
	}
	return nil
}

// sizes returns Slurm's BlockSizes for a base.
func (p *Policy) sizes(base int) ([]int, error) {
	sizes, err := blockSizes(base, p.BlockSizes)
	if err != nil || p.ParentBlocks == 0 || slices.Contains(sizes, base*p.ParentBlocks) {
		return sizes, err
	}
	return slices.Sorted(slices.Values(append(sizes, base*p.ParentBlocks))), nil
}

// blockSizes returns base and the further sizes as Slurm's BlockSizes.
func blockSizes(base int, further []int) ([]int, error) {
	sizes := []int{base}
	for _, s := range further {
		if s == base && len(sizes) == 1 {
			continue
		}
		if s <= sizes[len(sizes)-1] {
			return nil, fmt.Errorf("block sizes %v: %d is not above %d: want them ascending", further, s, sizes[len(sizes)-1])
		}
		if times := s / base; s%base != 0 || bits.OnesCount(uint(times)) != 1 || times > 1<<maxBlockSizeLevel {
			return nil, fmt.Errorf("block size %d: want base block size %d times a power of two of at most 2^%d, such as %d", s, base, maxBlockSizeLevel, base*2)
		}
		sizes = append(sizes, s)
	}
	return sizes, nil
}
