package placement

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// nameParents names what the neighbours of each block share: the switches above the leaves of most of its nodes,
// else an NVLink cluster of several cliques; empty if neither is known.
func nameParents(blocks []*domain) {
	clusters := clustersOf(blocks)
	cliques := make(map[string]int)
	for _, cluster := range clusters {
		cliques[cluster]++
	}
	for i, d := range blocks {
		switch cluster := clusters[i]; {
		case d.above != "":
			d.parent = belowSwitch + d.above[1:]
		case cluster != "" && cliques[cluster] > 1:
			d.parent = "NVLink cluster " + cluster
		}
	}
}

// belowSwitch begins the name of a parent domain that is known from switches.
const belowSwitch = "switch "

// clustersOf returns, beside the blocks, the hex digits of the UUID of the NVLink
// cluster that each is a clique of. Silent nodes leave only the digits that the
// block's name has: the cluster is the known one that begins with these digits, if
// there is one only.
func clustersOf(blocks []*domain) []string {
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

// nameOutgrown names the parent domains that have more blocks than their size, and
// how many blocks have none.
func nameOutgrown(blocks []*domain, size int) (found problems) {
	counts := make(map[string]int)
	example := ""
	for _, d := range blocks {
		if len(d.nodes) == 0 {
			continue
		}
		if counts[d.parent]++; d.parent == "" {
			example = cmp.Or(example, d.name)
		}
	}
	for parent, n := range counts {
		switch {
		case parent == "":
			found.add("", ReasonParentBlocks, fmt.Sprintf("%d blocks, such as %s, have no known switch above the leaf: Slurm aggregates them in the order in which they came", n, example))
		case n > size:
			found.add("", ReasonParentBlocks, fmt.Sprintf("%s has %d blocks, more than %d: Slurm makes several groups of them; set parentBlocks higher", parent, n, size))
		}
	}
	return found
}

// adviseParents says which ParentBlocks would keep a job of several blocks below one
// switch, if the switches tell and the policy has no further sizes. It says too which
// sizes of jobs that would make impossible.
func adviseParents(known, fresh []*domain, sizes []int, policy *Policy) (found problems) {
	if policy.TreeOnly || policy.ParentBlocks > 0 || len(policy.BlockSizes) > 0 {
		return nil
	}
	counts := make(map[string]int)
	most, example := 0, ""
	for _, d := range slices.Concat(known, fresh) {
		parent, ok := strings.CutPrefix(d.parent, belowSwitch)
		if !ok || len(d.nodes) == 0 {
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
	blocks, mixed := putInWindows(known, fresh, size)
	if len(mixed) > 0 {
		advice += ", if the files are made from scratch: known blocks keep their places"
	} else if impossible := ImpossibleJobs([]int{sizes[0], sizes[0] * size}, countNodes(blocks)); len(impossible) > 0 {
		advice += fmt.Sprintf("; jobs of %s nodes cannot run then", impossible)
	}
	found.add("", ReasonParentBlocks, fmt.Sprintf("%d blocks are below switch %s, and Slurm does not know that: a job of two blocks may get any two blocks; %s", most, example, advice))
	return found
}
