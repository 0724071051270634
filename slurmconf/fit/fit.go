// Package fit says whether Slurm would start a job in a block topology, and on which blocks. It
// also says whether Slurm obeys the map ([Map]): which blocks and leaf switches a running job
// uses, the fewest that would have done, and segments that are not whole.
//
// It follows the rules of Slurm's topology/block of 25.11 and newer. Jobs take whole nodes, and
// all nodes have the same weight. For a job that asks, it does not know partitions, limits,
// priorities, GRES or time: a job that fits may still wait for these. The package is pure.
package fit

import (
	"fmt"
	"slices"
)

// Job is what a job asks for, in sbatch's words.
type Job struct {
	Nodes int
	// Segment is --segment: each so many nodes are together. 0: none.
	Segment int
	// Consolidate is --consolidate-segments: all segments in the smallest aggregate that is
	// large enough. Spread is --spread-segments: no two segments in one base block.
	Consolidate, Spread bool
}

// Check returns what is wrong with the words themselves.
func (j *Job) Check() error {
	switch {
	case j.Nodes < 1:
		return fmt.Errorf("-N %d: want 1 node or more", j.Nodes)
	case j.Segment < 0:
		return fmt.Errorf("--segment=%d: want 1 node or more", j.Segment)
	case j.Segment > 0 && j.Segment <= j.Nodes && j.Nodes%j.Segment != 0:
		return fmt.Errorf("-N %d --segment=%d: Slurm refuses a number of nodes that is no multiple of the segment", j.Nodes, j.Segment)
	case j.Segment == 0 && (j.Consolidate || j.Spread):
		return fmt.Errorf("--consolidate-segments and --spread-segments need --segment")
	}
	return nil
}

// blocks is a block topology and the nodes that a job may have.
type blocks struct {
	// Sizes are Slurm's BlockSizes, the base first.
	Sizes []int
	// Free are the nodes of each block that a job may have now, in the order of the file. A
	// placeholder has 0, and so has a block with another job for --exclusive=topo.
	Free []int
	// Apart are nodes that are in no block of the topology.
	Apart int
}

// Place is what a job would get.
type Place struct {
	// Segments say what each segment takes. A job without segments is one segment.
	Segments []Segment
	// Apart are the nodes in no block. Slurm uses these if it has no choice.
	Apart int
}

// Segment is what one segment takes.
type Segment []Taken

// Taken is a number of nodes of a block.
type Taken struct{ Block, Nodes int }

// find returns what Slurm would give the job of what is free. It returns false if the job
// does not fit. The words of the job have been checked.
func (b *blocks) find(j *Job) (Place, bool) {
	total := 0
	for _, n := range b.Free {
		total += n
	}
	switch {
	case total == 0: // Slurm uses the topology only if a node of a block is free
		return Place{Apart: j.Nodes}, j.Nodes <= b.Apart
	case j.Nodes > total:
		return Place{Apart: j.Nodes}, j.Nodes == 1 && b.Apart > 0
	}
	free := slices.Clone(b.Free)
	for range maxTries {
		s := b.search(j, free)
		place, ok := s.run()
		if ok {
			return place, true
		}
		switch first := place.first(); {
		case s.part >= 0: // Slurm looks in another aggregate
			first := s.part * s.perPart * s.perBlock
			clear(free[first:min(first+s.perPart*s.perBlock, len(free))])
		case first >= 0: // Slurm tries again without the first node that it had taken
			free[first]--
		default:
			return Place{}, false
		}
	}
	return Place{}, false
}

// maxTries bounds how often another place is tried. Slurm tries until too few nodes are left.
const maxTries = 200

// first is the first block that the place takes nodes of, or -1.
func (p *Place) first() int {
	first := -1
	for _, segment := range p.Segments {
		for _, t := range segment {
			if first < 0 || t.Block < first {
				first = t.Block
			}
		}
	}
	return first
}
