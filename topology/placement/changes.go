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
	oldPlaces, newPlaces := old.Places(), plan.Places()
	oldAbove, newAbove := topology.PathsAbove(topology.NamedSwitches(old.Switches())), topology.PathsAbove(plan.Switches())
	for n, from := range oldPlaces {
		to := newPlaces[n]
		below := from.Leaf == "" || from.Leaf == to.Leaf && strings.HasSuffix(newAbove[to.Leaf], oldAbove[from.Leaf])
		if from.Block != "" && to.Block != from.Block || !below {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes, len(oldPlaces)
}
