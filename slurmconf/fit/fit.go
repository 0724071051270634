// Package fit says whether Slurm would start a job in a topology, and on which blocks or below
// which switch. It also says whether Slurm obeys the map ([Map]): which blocks and leaf switches
// a running job uses, the fewest that would have done, and segments that are not whole.
//
// It follows the rules of Slurm's topology plugins block, tree and flat. Jobs take whole nodes,
// and all nodes have the same weight. If it does not know the rule, it says so. For a job that
// asks, it does not know partitions, limits, priorities, GRES or time: a job that fits may still
// wait for these. The package is pure.
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
	// Off says how many of the free nodes of each block are powered down. nil: none are.
	Off []int
	// Apart are nodes that are in no block of the topology. Alone says that they run jobs of one
	// node only.
	Apart int
	Alone bool
	// Once says that Slurm tries one place and no other, or with Shrinks the same with fewer nodes.
	Once, Shrinks bool
}

// off is how many of the free nodes of a block are powered down.
func (b *blocks) off(block int) int {
	if b.Off == nil {
		return 0
	}
	return b.Off[block]
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

// outcome says whether a job fits.
type outcome int

const (
	no    outcome = iota
	maybe         // the rule by which Slurm tries another place is not known, or Slurm tries very many
	yes
)

// find returns what Slurm would give the job of what is free. The words of the job have been
// checked.
func (b *blocks) find(j *Job) (Place, outcome) {
	total := sum(b.Free)
	if j.Nodes > total { // Slurm uses the topology only if a node of a block is free
		if j.Nodes <= b.Apart && (total == 0 && !b.Alone || j.Nodes == 1) {
			return Place{Apart: j.Nodes}, yes
		}
		return Place{Apart: j.Nodes}, no
	}
	tries := maxTries
	place, fits := b.try(j, slices.Clone(b.Free), slices.Clone(b.Off), &tries)
	if fits == no && b.Off != nil && !b.Once { // Slurm was seen to start some of the jobs that fit if all nodes are up
		tries = maxTries
		if place, up := b.try(j, slices.Clone(b.Free), nil, &tries); up != no {
			return place, maybe
		}
	}
	return place, fits
}

// try looks for a place in what is left of the free nodes, which it changes.
func (b *blocks) try(j *Job, free, off []int, tries *int) (Place, outcome) {
	for ; *tries > 0; *tries-- {
		s := b.search(j, free, off)
		place, ok := s.run()
		if ok {
			return place, yes
		}
		first := place.first()
		switch {
		case b.Once && b.Shrinks && (s.tooMany || first >= 0):
			return Place{}, maybe
		case b.Once:
			return Place{}, no
		case off != nil && (s.tooMany || j.Segment > 0 && (first >= 0 || s.late)): // Slurm tries again as if all nodes were up
			off = nil
		case s.part >= 0: // Slurm looks in another aggregate
			first := s.part * s.perPart * s.perBlock
			last := min(first+s.perPart*s.perBlock, len(free))
			clear(free[first:last])
			if off != nil {
				clear(off[first:last])
			}
		case first < 0:
			return Place{}, no
		case off != nil && 0 < off[first] && off[first] < free[first]:
			// Slurm tries again without the first node that it had taken. Whether that is up or powered
			// down, the order of slurm.conf says.
			*tries--
			free[first]--
			place, fits := b.try(j, slices.Clone(free), slices.Clone(off), tries)
			off[first]--
			if other, too := b.try(j, free, off, tries); fits != too {
				return other, maybe
			}
			return place, fits
		default: // Slurm tries again without the first node that it had taken
			if off != nil && off[first] > 0 {
				off[first]--
			}
			free[first]--
		}
	}
	return Place{}, maybe
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
