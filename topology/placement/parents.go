package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The problems of parent domains.
const (
	ReasonParentsMixed = "ParentDomainsMixed"
	ReasonAboveParent  = "AboveParentBlocks"
	ReasonNoParent     = "NoParentDomain"
)

// spareBlock begins the name of a place that is kept free in a parent domain.
const spareBlock = "spare-"

// isSpareName reports whether a block is called like a place that is kept free.
func isSpareName(block string) bool {
	number, ok := strings.CutPrefix(block, spareBlock)
	return ok && number != "" && strings.Trim(number, "0123456789x") == ""
}

// isSpare reports whether a published block is a place that was kept free. No node
// was ever told its name.
func (p *planner) isSpare(b int) bool {
	return isSpareName(p.prev.Blocks[b].Name) && len(p.prev.Blocks[b].Nodes) == 0
}

// spareName names the place at an index, as no group is named.
func (p *planner) spareName(at int) string {
	name := spareBlock + strconv.Itoa(at+1)
	for slices.ContainsFunc(p.groups, func(g group) bool { return g.name == name }) {
		name += "x"
	}
	return name
}

// window is as many places for blocks, one after the other, as Slurm aggregates
// to a parent domain.
type window struct {
	parent string // empty where no block says it
	free   []int  // places, ascending
}

// layOut returns the groups in their places, noBlock for one that is kept free.
// Published ones keep theirs. A new one goes into the first free place of its
// parent domain, or begins a window of it behind all others.
func (p *planner) layOut(known, fresh []int, parents []string) []int {
	size := p.policy.ParentBlocks
	var places []int
	for _, g := range known {
		for len(places) < p.groups[g].prev {
			places = append(places, noBlock)
		}
		places = append(places, g)
	}
	for len(places)%size != 0 {
		places = append(places, noBlock)
	}
	var windows []window
	for at := 0; at < len(places); at += size {
		windows = append(windows, p.readWindow(places, at, parents))
	}
	for _, g := range fresh {
		w := slices.IndexFunc(windows, func(w window) bool { return w.parent == parents[g] && len(w.free) > 0 })
		if w < 0 {
			w = len(windows)
			windows = append(windows, window{parent: parents[g]})
			for range size {
				windows[w].free = append(windows[w].free, len(places))
				places = append(places, noBlock)
			}
		}
		places[windows[w].free[0]] = g
		windows[w].free = windows[w].free[1:]
	}
	p.nameOutgrown(parents)
	for len(places) > 0 && places[len(places)-1] == noBlock {
		places = places[:len(places)-1]
	}
	return places
}

// readWindow finds whose the published window at a place is, and what of it is
// free. One that has blocks of two parents is nobody's: known blocks do not move.
func (p *planner) readWindow(places []int, at int, parents []string) window {
	var w window
	of, first, gone := "", noBlock, ""
	for i := at; i < at+p.policy.ParentBlocks; i++ {
		g := places[i]
		switch {
		case g == noBlock:
			w.free = append(w.free, i)
		case len(p.groups[g].nodes) == 0:
			gone = cmp.Or(gone, parents[g])
		case parents[g] == "": // it says nothing now, and is nobody's evidence
		case first == noBlock:
			of, first = parents[g], g
		case parents[g] != of:
			p.problem("", ReasonParentsMixed, fmt.Sprintf("Slurm aggregates blocks %s of %s and %s of %s, for published blocks keep their places",
				p.groups[first].name, of, p.groups[g].name, parents[g]))
			return window{parent: mixedParents}
		}
	}
	if w.parent = of; first == noBlock {
		w.parent = gone
	}
	return w
}

// mixedParents is no parent's name.
const mixedParents = "\x00"

// parentDomains names, beside the groups, what the neighbours of a block share:
// what is above the leaves of most of its nodes, else an NVLink cluster of several
// cliques; empty where neither is known.
func (p *planner) parentDomains() []string {
	clusters := make(map[string]int)
	for g := range p.groups {
		clusters[p.clusterOf(g)]++
	}
	parents, paths := make([]string, len(p.groups)), p.pathsAbove()
	for g := range p.groups {
		above := p.aboveLeaf(g, paths)
		switch cluster := p.clusterOf(g); {
		case above != "":
			parents[g] = "switch " + above
		case cluster != "" && clusters[cluster] > 1:
			parents[g] = "NVLink cluster " + cluster
		}
	}
	return parents
}

// clusterOf names the NVLink cluster that a block is a clique of.
func (p *planner) clusterOf(g int) string {
	name := cmp.Or(p.groups[g].names[0], p.groups[g].name)
	if !isCliqueName(name) {
		return ""
	}
	return strings.TrimPrefix(name, blockPrefix)[:8]
}

// aboveLeaf names the switches above the leaves of most of a block's nodes, from the
// top. They are those of the tree, which knows of silent nodes what was published.
func (p *planner) aboveLeaf(g int, paths map[string]string) string {
	votes := make(map[string]int)
	for _, i := range p.groups[g].nodes {
		if path := paths[p.plan.Placements[i].Switch]; path != "" {
			votes[path]++
		}
	}
	best := ""
	for path, n := range votes {
		if n > votes[best] || n == votes[best] && path < best {
			best = path
		}
	}
	return best
}

// pathsAbove returns by leaf the switches above it, from the top; those without any
// are absent.
func (p *planner) pathsAbove() map[string]string {
	above := parentsOf(p.plan.Switches)
	paths := make(map[string]string)
	for i := range p.plan.Switches {
		leaf, path := p.plan.Switches[i].Name, ""
		if len(p.plan.Switches[i].Children) > 0 {
			continue
		}
		for tier, up := 0, above[leaf]; up != "" && tier < maxTiers; tier, up = tier+1, above[up] {
			path = "/" + up + path
		}
		if path != "" {
			paths[leaf] = path[1:]
		}
	}
	return paths
}

// WithoutParent returns the new blocks of which no switch above the leaf is known, and
// whether any is known of others. prev may be nil.
func (p *Plan) WithoutParent(prev *Previous) (blocks []Block, others bool) {
	published := make(map[string]bool)
	if prev != nil {
		for i := range prev.Blocks {
			published[prev.Blocks[i].Name] = true
		}
	}
	above := parentsOf(p.Switches)
	sited := make(map[string]bool)
	for i := range p.Placements {
		if pl := &p.Placements[i]; above[pl.Switch] != "" {
			sited[pl.Block] = true
		}
	}
	for i := range p.Blocks {
		if b := &p.Blocks[i]; len(b.Nodes) > 0 && !published[b.Name] && !sited[b.Name] {
			blocks = append(blocks, *b)
		}
	}
	return blocks, len(above) > 0
}

// nameOutgrown names the parent domains that have more blocks than their size, and
// how many blocks have none.
func (p *planner) nameOutgrown(parents []string) {
	counts := make(map[string]int)
	example := ""
	for g := range p.groups {
		if len(p.groups[g].nodes) == 0 {
			continue
		}
		if counts[parents[g]]++; parents[g] == "" {
			example = cmp.Or(example, p.groups[g].name)
		}
	}
	for parent, n := range counts {
		switch {
		case parent == "":
			p.problem("", ReasonNoParent, fmt.Sprintf("of %d blocks, such as %s, no switch above the leaf is known: they are aggregated as they come", n, example))
		case n > p.policy.ParentBlocks:
			p.problem("", ReasonAboveParent, fmt.Sprintf("%s has %d blocks, more than %d: Slurm aggregates them to several; set the number of blocks in a parent domain higher", parent, n, p.policy.ParentBlocks))
		}
	}
}
