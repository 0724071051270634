package placement

import (
	"fmt"
	"math/bits"
	"slices"
)

// MaxBlockSize is Slurm's limit on the base block size. A larger one ends slurmctld
// without a message.
const MaxBlockSize = 65535

// maxLevel is Slurm's limit on k in base x 2^k.
const maxLevel = 15

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

// CheckSizeClasses returns what is wrong with the base block sizes of classes.
func CheckSizeClasses(sizes []int) error {
	for i, n := range sizes {
		if n < 1 || n > MaxBlockSize || i > 0 && n >= sizes[i-1] {
			return fmt.Errorf("size classes %v: want sizes of 1 to %d, the largest first", sizes, MaxBlockSize)
		}
	}
	return nil
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
		if times := s / base; s%base != 0 || bits.OnesCount(uint(times)) != 1 || times > 1<<maxLevel {
			return nil, fmt.Errorf("block size %d: want base block size %d times a power of two of at most 2^%d, such as %d", s, base, maxLevel, base*2)
		}
		sizes = append(sizes, s)
	}
	return sizes, nil
}

// sizes returns Slurm's BlockSizes for a base.
func (p *Policy) sizes(base int) ([]int, error) {
	sizes, err := blockSizes(base, p.BlockSizes)
	if err != nil || p.ParentBlocks == 0 || slices.Contains(sizes, base*p.ParentBlocks) {
		return sizes, err
	}
	return slices.Sorted(slices.Values(append(sizes, base*p.ParentBlocks))), nil
}

// groupSizes returns the sizes of racks by class, the class of the largest racks first. A class is a rack and the
// smaller ones that are like it. A rack without nodes counts in the last class. One rack below half of the median makes
// no class: it may just not be up yet.
func groupSizes(sizes []int) (classes [][]int) {
	sorted := slices.Sorted(slices.Values(sizes))
	slices.Reverse(sorted)
	median := sorted[(len(sorted)-1)/2]
	for _, n := range sorted {
		if last := len(classes) - 1; last >= 0 && (n == 0 || isLike(classes[last][0], n)) {
			classes[last] = append(classes[last], n)
		} else {
			classes = append(classes, []int{n})
		}
	}
	for i := len(classes) - 1; i > 0; i-- {
		if len(classes[i]) == 1 && 2*classes[i][0] < median {
			classes = slices.Delete(classes, i, i+1)
		}
	}
	return classes
}

// isLike reports whether a rack of n nodes has at least two thirds of the nodes of a larger one.
func isLike(larger, n int) bool { return n <= larger && 3*n >= 2*larger }

// largestOfEach returns the size of the largest rack of each class.
func largestOfEach(classes [][]int) (sizes []int) {
	for _, class := range classes {
		sizes = append(sizes, slices.Max(class))
	}
	return sizes
}

// classOf returns the smallest class that holds a rack, or the largest class. A class is the size
// of its largest rack.
func classOf(classes []int, size int) int {
	for _, class := range slices.Backward(classes) {
		if size <= class {
			return class
		}
	}
	return classes[0]
}

// CheckParentBlocks returns what is wrong with a number of blocks in a parent
// domain.
func CheckParentBlocks(n int) error {
	if n != 0 && (n < 2 || n > 1<<maxLevel || bits.OnesCount(uint(n)) != 1) {
		return fmt.Errorf("%d blocks in a parent domain: want a power of two of 2 to %d, or 0 for none", n, 1<<maxLevel)
	}
	return nil
}
