package lint

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// maxLevel is Slurm's limit on k in a block size of base x 2^k.
const maxLevel = 15

// lintBlocks applies the rules of topology/block.
func (l *linter) lintBlocks(s *section) {
	if len(s.units) == 0 {
		l.noUnits(s, "block")
		return
	}
	base, levels := l.lintSizes(s)
	l.lintDuplicates(s, "block")
	m := l.newMembership()
	withNodes := 0
	counts := make([]int, len(s.units))
	for i := range s.units {
		u := &s.units[i]
		if !u.hasNodes {
			if !l.Release.Placeholders() {
				l.fatal(u.line, "Placeholder", "give it nodes or take it out; placeholders need Slurm 25.05", fmt.Sprintf("block %s has no Nodes=, and Slurm %s does not start with it", u.name, l.Release))
			}
			continue
		}
		withNodes++
		var whole bool
		if counts[i], whole = l.lintUnit(m, s, i, "block"); !whole {
			continue
		}
		if base == 0 {
			base = counts[i]
		}
		if counts[i] < base && !l.Release.ShortBlocks() {
			l.fatal(u.line, "ShortBlock", "set BlockSizes to the size of the smallest block, or add nodes", fmt.Sprintf("block %s has %d nodes, fewer than the base block size %d, and Slurm %s does not start with it", u.name, counts[i], base, l.Release))
		}
	}
	if base > 0 || !m.partly {
		l.lintBase(s, base, withNodes, counts)
	}
	l.lintAggregates(s, levels)
	l.lintAbsent(m, s.units[0].line, "in no block", "put them into a block, or know that only one-node jobs run there")
}

// lintBase judges the base block size against the blocks.
func (l *linter) lintBase(s *section, base, withNodes int, counts []int) {
	switch {
	case base == 0:
		l.fatal(s.units[0].line, "NoBaseBlockSize", "set BlockSizes, or give a block nodes that slurm.conf knows", "no block has nodes and BlockSizes is not set")
		return
	case withNodes == 0:
		l.warn(s.units[0].line, "NoNodes", "put nodes into the blocks with Topology=", "no block has nodes")
	}
	for i, n := range counts {
		if n > base {
			l.warn(s.units[i].line, "OversizeBlock", fmt.Sprintf("set the base block size to %d, or split the block", n), fmt.Sprintf("block %s has %d nodes, more than the base block size %d: jobs of more than %d nodes go to two blocks", s.units[i].name, n, base, base))
		}
	}
}

// lintSizes checks BlockSizes and returns the base, 0 when it is not set, and
// the levels that Slurm aggregates at.
func (l *linter) lintSizes(s *section) (base int, levels uint32) {
	if !s.hasSizes {
		return 0, 1<<5 - 1
	}
	const advice = "want numbers of 1 or more, the base block size first, each further one base x 2^k with k of at most 15, ascending, such as 18,36"
	levels = 1
	var previous int64
	for _, size := range s.sizes {
		if base == 0 && size > 0 {
			base = int(size)
		}
		level, ok := sizeLevel(int64(base), size)
		if !ok {
			l.fatal(s.sizesLine, ruleBlockSizes, advice, fmt.Sprintf("BlockSizes: %d is not allowed after base %d", size, base))
			return max(base, 1), levels
		}
		levels |= 1 << level
		if size <= previous {
			l.warn(s.sizesLine, ruleBlockSizes, advice, fmt.Sprintf("BlockSizes: %d is not above %d: Slurm sorts them", size, previous))
		}
		previous = size
	}
	if len(s.sizes) == 0 {
		l.fatal(s.sizesLine, ruleBlockSizes, advice, "BlockSizes is empty")
		return 1, levels
	}
	return base, levels
}

// sizeLevel returns k of size = base x 2^k.
func sizeLevel(base, size int64) (level int, ok bool) {
	if size <= 0 || base <= 0 || base > 65535 || size%base != 0 {
		return 0, false
	}
	for quotient := size / base; quotient > 1; quotient /= 2 {
		if quotient%2 != 0 {
			return 0, false
		}
		level++
	}
	return level, level <= maxLevel
}

// lintAggregates finds aggregated blocks whose name, a list of their blocks'
// names, is no host list: Slurm does not start with one.
func (l *linter) lintAggregates(s *section, levels uint32) {
	brackets := false
	names := make([]string, len(s.units))
	for i := range s.units {
		names[i] = s.units[i].name
		brackets = brackets || strings.IndexByte(names[i], '[') >= 0
	}
	if !brackets {
		return
	}
	previous := 0
	for level := 0; level <= maxLevel; level++ {
		if levels&(1<<level) == 0 {
			continue
		}
		size := 1 << level
		for i := 0; i < len(names) && previous > 0; i += size {
			if left := len(names) - i; size > left && previous >= left {
				break
			}
			if err := hostlist.Walk(strings.Join(names[i:min(i+size, len(names))], ","), func([]byte) {}); err != nil {
				l.fatal(s.units[i].line, "AggregateName", "want names of letters, digits, '_' and '-'", fmt.Sprintf("Slurm joins the names of block %s and the blocks after it to a host list that it cannot read: %v", names[i], err))
				return
			}
		}
		if previous = size; size >= len(names) {
			return
		}
	}
}
