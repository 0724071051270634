package placement

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// parentDomains names, beside the blocks, what the neighbours of a block share:
// the switches above the leaves of most of its nodes, else an NVLink cluster of
// several cliques; empty if neither is known.
func parentDomains(blocks []block, t tree) []string {
	clusters := clustersOf(blocks)
	cliques := make(map[string]int)
	for _, cluster := range clusters {
		cliques[cluster]++
	}
	parents, paths := make([]string, len(blocks)), topology.PathsAbove(topology.NamedSwitches(t.switches))
	for i, cluster := range clusters {
		above := aboveLeaf(&blocks[i], t, paths)
		switch {
		case above != "":
			parents[i] = belowSwitch + above[1:]
		case cluster != "" && cliques[cluster] > 1:
			parents[i] = "NVLink cluster " + cluster
		}
	}
	return parents
}

// belowSwitch begins the name of a parent domain that is known from switches.
const belowSwitch = "switch "

// clustersOf returns, beside the blocks, the hex digits of the UUID of the NVLink
// cluster that each is a clique of. Silent nodes leave only the digits that the
// block's name has: the cluster is the known one that begins with these digits, if
// there is one only.
func clustersOf(blocks []block) []string {
	clusters := make([]string, len(blocks))
	var known []string
	for i := range blocks {
		if c := blocks[i].clique; !c.IsZero() {
			clusters[i] = c.ClusterUUID.Hex()
			known = append(known, clusters[i])
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	for i := range blocks {
		if clusters[i] == "" {
			clusters[i] = topology.ClusterOfBlock(blocks[i].name)
			at, _ := slices.BinarySearch(known, clusters[i])
			of := known[at:min(at+2, len(known))]
			begins := func(at int) bool { return clusters[i] != "" && at < len(of) && strings.HasPrefix(of[at], clusters[i]) }
			if begins(0) && !begins(1) {
				clusters[i] = of[0]
			}
		}
	}
	return clusters
}

// aboveLeaf names the switches above the leaves of most of a block's nodes, from
// the top. The tree knows of silent nodes what was published.
func aboveLeaf(b *block, t tree, paths map[string]string) string {
	votes := make(map[string]int)
	for _, i := range b.nodes {
		if path := paths[t.leaves[i]]; path != "" {
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

// nameOutgrown names the parent domains that have more blocks than their size, and
// how many blocks have none.
func nameOutgrown(blocks []block, parents []string, size int) problems {
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
			found.add("", ReasonNoParent, fmt.Sprintf("%d blocks, such as %s, have no known switch above the leaf: Slurm aggregates them in the order in which they came", n, example))
		case n > size:
			found.add("", ReasonAboveParent, fmt.Sprintf("%s has %d blocks, more than %d: Slurm makes several groups of them; set parentBlocks higher", parent, n, size))
		}
	}
	return found
}

// adviseParents says which ParentBlocks would keep a job of several blocks below one
// switch, if the switches tell and the policy has no further sizes. It says too which
// sizes of jobs that would make impossible.
func adviseParents(s *site, blocks []block, sizes []int, known, fresh []int, parents []string) problems {
	if s.policy.TreeOnly || len(s.policy.BlockSizes) > 0 {
		return nil
	}
	counts := make(map[string]int)
	most, example := 0, ""
	for i := range blocks {
		parent, ok := strings.CutPrefix(parents[i], belowSwitch)
		if !ok || len(blocks[i].nodes) == 0 {
			continue
		}
		counts[parent]++
		if n := counts[parent]; n > most || n == most && parent < example {
			most, example = n, parent
		}
	}
	if len(counts) < 2 || most < 2 || most > 1<<maxLevel {
		return nil
	}
	size := 1 << bits.Len(uint(most-1))
	advice := fmt.Sprintf("parentBlocks: %d keeps such a job below one switch", size)
	places, mixed := placeInWindows(blocks, known, fresh, parents, size)
	if len(mixed) > 0 {
		advice += ", if the files are made from scratch: known blocks keep their places"
	} else if impossible := ImpossibleJobs([]int{sizes[0], sizes[0] * size}, countNodes(blocks, places)); len(impossible) > 0 {
		advice += fmt.Sprintf("; jobs of %s nodes cannot run then", impossible)
	}
	var found problems
	found.add("", ReasonParentsUnset, fmt.Sprintf("%d blocks are below switch %s, and Slurm does not know that: a job of two blocks may get any two blocks; %s", most, example, advice))
	return found
}

// countNodes returns the number of nodes in each place.
func countNodes(blocks []block, places ordering) []int {
	counts := make([]int, len(places))
	for at, i := range places {
		if i != none {
			counts[at] = len(blocks[i].nodes)
		}
	}
	return counts
}

// WithoutParent returns the blocks that a plan has and the old one has not, and that have no
// known switch above the leaf. others reports whether other blocks have one. old may be nil.
func WithoutParent(old, plan *topology.Plan) (blocks []topology.Block, others bool) {
	known := make(map[string]bool)
	if old != nil {
		for _, b := range old.Blocks() {
			known[b.Name] = true
		}
	}
	above := topology.ParentsOf(topology.NamedSwitches(plan.Switches()))
	sited := make(map[string]bool)
	for _, at := range plan.Places() {
		if above[at.Leaf] != "" {
			sited[at.Block] = true
		}
	}
	for _, b := range plan.Blocks() {
		if len(b.Nodes) > 0 && !known[b.Name] && !sited[b.Name] {
			blocks = append(blocks, b)
		}
	}
	return blocks, len(above) > 0
}
