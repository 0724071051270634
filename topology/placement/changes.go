package placement

import (
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Moved returns the Slurm names of the published nodes that a plan puts elsewhere
// or nowhere, sorted, and how many nodes were published. In a tree the whole path
// from leaf to root counts. A new switch above the old root moves nothing.
func Moved(prev *Previous, plan *Plan) (nodes []string, of int) {
	oldPlaces, newPlaces := prev.Places(), placesOf(plan.Blocks, plan.Switches)
	oldAbove, newAbove := topology.PathsAbove(prev.Switches), topology.PathsAbove(plan.Switches)
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

// Places returns where every published node is.
func (p *Previous) Places() map[string]topology.Place { return placesOf(p.Blocks, p.Switches) }

func placesOf(blocks []Block, switches []topology.Switch) map[string]topology.Place {
	count := 0
	for i := range blocks {
		count += len(blocks[i].Nodes)
	}
	at := make(map[string]topology.Place, count)
	for i := range blocks {
		for _, n := range blocks[i].Nodes {
			at[n] = topology.Place{Block: blocks[i].Name}
		}
	}
	for i := range switches {
		for _, n := range switches[i].Nodes {
			at[n] = topology.Place{Block: at[n].Block, Leaf: switches[i].Name}
		}
	}
	return at
}
