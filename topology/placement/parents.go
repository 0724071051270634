package placement

import (
	"cmp"
	"fmt"
	"strings"
)

// parentDomains names, beside the blocks, what the neighbours of a block share:
// the switches above the leaves of most of its nodes, else an NVLink cluster of
// several cliques; empty if neither is known.
func parentDomains(blocks []sized, tree switchTree) []string {
	clusters := make(map[string]int)
	for i := range blocks {
		clusters[clusterOf(&blocks[i])]++
	}
	parents, paths := make([]string, len(blocks)), pathsAbove(tree.switches)
	for i := range blocks {
		above := aboveLeaf(&blocks[i], tree, paths)
		switch cluster := clusterOf(&blocks[i]); {
		case above != "":
			parents[i] = "switch " + above
		case cluster != "" && clusters[cluster] > 1:
			parents[i] = "NVLink cluster " + cluster
		}
	}
	return parents
}

// clusterOf names the NVLink cluster that a block is a clique of.
func clusterOf(b *sized) string {
	name := cmp.Or(b.names[0], b.name)
	if !isCliqueName(name) {
		return ""
	}
	return strings.TrimPrefix(name, blockPrefix)[:8]
}

// aboveLeaf names the switches above the leaves of most of a block's nodes, from
// the top. The tree knows of silent nodes what was published.
func aboveLeaf(b *sized, tree switchTree, paths map[string]string) string {
	votes := make(map[string]int)
	for _, i := range b.nodes {
		if path := paths[tree.leaf(i)]; path != "" {
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

// pathsAbove returns by leaf the switches above it, from the top. Leaves without
// any are absent.
func pathsAbove(switches []Switch) map[string]string {
	above := parentsOf(switches)
	paths := make(map[string]string)
	for i := range switches {
		leaf, path := switches[i].Name, ""
		if len(switches[i].Children) > 0 {
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

// nameOutgrown names the parent domains that have more blocks than their size, and
// how many blocks have none.
func nameOutgrown(blocks []sized, parents []string, size int) problems {
	var found problems
	counts := make(map[string]int)
	example := ""
	for i := range blocks {
		if len(blocks[i].nodes) == 0 {
			continue
		}
		if counts[parents[i]]++; parents[i] == "" {
			example = cmp.Or(example, blocks[i].name)
		}
	}
	for parent, n := range counts {
		switch {
		case parent == "":
			found.add("", ReasonNoParent, fmt.Sprintf("of %d blocks, such as %s, no switch above the leaf is known: they are aggregated as they come", n, example))
		case n > size:
			found.add("", ReasonAboveParent, fmt.Sprintf("%s has %d blocks, more than %d: Slurm aggregates them to several; set the number of blocks in a parent domain higher", parent, n, size))
		}
	}
	return found
}

// WithoutParent returns the new blocks of which no switch above the leaf is known,
// and whether any is known of others. prev may be nil.
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
