package placement

import (
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Moved returns the Slurm names of the published nodes that a plan puts elsewhere
// or nowhere, sorted, and how many nodes were published. In a tree the whole path
// from leaf to root counts. A new switch above the old root moves nothing, nor does a root that
// no label named and that goes.
func Moved(old, plan *topology.Plan) (nodes []string, of int) {
	oldPlaces, places := old.Places(), plan.Places()
	moves := movesFrom(old, oldPlaces, plan.Switches())
	for n := range oldPlaces {
		if moves(n, places[n]) {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes, len(oldPlaces)
}

// movesFrom returns what reports whether a place, below the switches, is another one than that of a published node.
func movesFrom(old *topology.Plan, places map[string]topology.Place, switches []topology.Switch) func(node string, to topology.Place) bool {
	oldAbove, above := topology.PathsAbove(topology.NamedSwitches(old.Switches())), topology.PathsAbove(switches)
	return func(node string, to topology.Place) bool {
		from := places[node]
		below := from.Leaf == "" || from.Leaf == to.Leaf && strings.HasSuffix(above[to.Leaf], oldAbove[from.Leaf])
		return from.Block != "" && to.Block != from.Block || !below
	}
}
