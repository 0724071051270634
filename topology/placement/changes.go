package placement

import (
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology/placement/tree"
)

// Moved returns the Slurm names of the published nodes that a plan puts elsewhere
// or nowhere, sorted, and how many nodes were published. In a tree the whole path
// from leaf to root counts. A new switch above the old root moves nothing.
func Moved(prev *Previous, plan *Plan) (nodes []string, of int) {
	oldPlaces, newPlaces := prev.Places(), placesOf(plan.Blocks, plan.Switches)
	oldAbove, newAbove := pathsAbove(prev.Switches), pathsAbove(plan.Switches)
	for n, old := range oldPlaces {
		place := newPlaces[n]
		below := old.Leaf == "" || old.Leaf == place.Leaf && strings.HasSuffix(newAbove[place.Leaf], oldAbove[old.Leaf])
		if old.Block != "" && place.Block != old.Block || !below {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes, len(oldPlaces)
}

// pathsAbove returns by leaf the switches above it, from the top, each after a slash.
// Leaves without any are absent.
func pathsAbove(switches []tree.Switch) map[string]string {
	above := parentsOf(switches)
	paths := make(map[string]string)
	for i := range switches {
		leaf, path := switches[i].Name, ""
		if len(switches[i].Children) > 0 {
			continue
		}
		for tier, up := 0, above[leaf]; up != "" && tier < tree.MaxTiers; tier, up = tier+1, above[up] {
			path = "/" + up + path
		}
		if path != "" {
			paths[leaf] = path
		}
	}
	return paths
}

// InnerSwitches returns the names of the published switches that have switches
// below them. p may be nil.
func (p *Previous) InnerSwitches() []string {
	if p == nil {
		return nil
	}
	var inner []string
	for i := range p.Switches {
		if s := &p.Switches[i]; len(s.Children) > 0 {
			inner = append(inner, s.Name)
		}
	}
	return inner
}

// Place is a node's block and leaf switch in a topology, each empty if there is
// none.
type Place struct{ Block, Leaf string }

// Places returns where every published node is.
func (p *Previous) Places() map[string]Place { return placesOf(p.Blocks, p.Switches) }

func placesOf(blocks []Block, switches []tree.Switch) map[string]Place {
	count := 0
	for i := range blocks {
		count += len(blocks[i].Nodes)
	}
	at := make(map[string]Place, count)
	for i := range blocks {
		for _, n := range blocks[i].Nodes {
			at[n] = Place{Block: blocks[i].Name}
		}
	}
	for i := range switches {
		for _, n := range switches[i].Nodes {
			at[n] = Place{at[n].Block, switches[i].Name}
		}
	}
	return at
}

func parentsOf(switches []tree.Switch) map[string]string {
	above := make(map[string]string, len(switches))
	for i := range switches {
		for _, c := range switches[i].Children {
			above[c] = switches[i].Name
		}
	}
	return above
}
