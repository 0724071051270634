package lint

import (
	"math/bits"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// maxLevel is Slurm's limit on k in a block size of base x 2^k.
const maxLevel = 15

// lintBlocks applies the rules of topology/block.
func (l *linter) lintBlocks(s *slurmconf.Section, m *membership) {
	base := l.lintSizes(s)
	for i := range s.Units {
		u := &s.Units[i]
		if !u.HasNodes {
			continue
		}
		count, judged := l.lintUnit(m, s, i)
		if !judged {
			continue
		}
		if base == 0 {
			base = count
		}
		if count < base && !l.Release.Does(slurmconf.EmptyUnits) {
			l.Fatal(u.Line, slurmconf.ReasonBlockSizes, "set BlockSizes to the size of the smallest block, or add nodes", "block %s has %d nodes, fewer than the base block size %d, and Slurm %s does not start with it", u.Name, count, base, l.Release)
		}
	}
	if base == 0 && !m.partly {
		l.Fatal(s.Units[0].Line, slurmconf.ReasonBlockSizes, "set BlockSizes, or give a block nodes that slurm.conf knows", "no block has nodes and BlockSizes is not set")
	}
}

// lintSizes checks BlockSizes and returns the base, 0 when it is not set.
func (l *linter) lintSizes(s *slurmconf.Section) int {
	if s.SizesLine == 0 {
		return 0
	}
	const remedy = "want numbers of 1 or more, the base block size first, each further one base x 2^k with k of at most 15, ascending, such as 18,36"
	if len(s.Sizes) == 0 {
		l.Fatal(s.SizesLine, slurmconf.ReasonBlockSizes, remedy, "BlockSizes is empty")
		return 1
	}
	base, previous := s.Sizes[0], int64(0)
	for _, size := range s.Sizes {
		if !isMultiple(base, size) && size != base && s.YAML && !l.Release.Does(slurmconf.RefusesBlockSizes) {
			l.Warn(s.SizesLine, slurmconf.ReasonBlockSizes, remedy, "BlockSizes: %d is not allowed after base %d: Slurm before 26.05.3 leaves it out silently, and newer ones do not start", size, base)
			continue
		}
		if !isMultiple(base, size) {
			l.Fatal(s.SizesLine, slurmconf.ReasonBlockSizes, remedy, "BlockSizes: %d is not allowed after base %d", size, base)
			return max(int(base), 1)
		}
		if size <= previous {
			l.Warn(s.SizesLine, slurmconf.ReasonBlockSizes, remedy, "BlockSizes: %d is not above %d: Slurm sorts them", size, previous)
		}
		previous = size
	}
	return int(base)
}

// isMultiple reports whether size is base x 2^k that Slurm takes.
func isMultiple(base, size int64) bool {
	if size <= 0 || base <= 0 || base > 65535 || size%base != 0 {
		return false
	}
	quotient := uint64(size / base)
	return bits.OnesCount64(quotient) == 1 && bits.Len64(quotient) <= maxLevel+1
}
