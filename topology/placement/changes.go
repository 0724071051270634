package placement

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology/placement/tree"
)

// Moved returns the Slurm names of the published nodes that a plan puts elsewhere
// or nowhere, sorted, and how many nodes were published. In a tree the whole path
// from leaf to root counts. A new switch above the old root moves nothing.
func Moved(prev *Previous, plan *Plan) (nodes []string, of int) {
	oldPlaces, newPlaces := prev.Places(), placesOf(plan.Blocks, plan.Switches)
	oldAbove, newAbove := parentsOf(prev.Switches), parentsOf(plan.Switches)
	same := make(map[[2]string]bool) // old and new leaf -> the path above is the same
	for n, old := range oldPlaces {
		place := newPlaces[n]
		leaves := [2]string{old.Leaf, place.Leaf}
		stays, known := same[leaves]
		if !known {
			stays = samePath(old.Leaf, oldAbove, place.Leaf, newAbove)
			same[leaves] = stays
		}
		if old.Block != "" && place.Block != old.Block || !stays {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes, len(oldPlaces)
}

// samePath reports whether the new path to the root begins with the whole old one.
func samePath(old string, oldAbove map[string]string, place string, newAbove map[string]string) bool {
	for range tree.MaxTiers {
		if old == "" || old != place {
			break
		}
		old, place = oldAbove[old], newAbove[place]
	}
	return old == ""
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
	n := 0
	for i := range blocks {
		n += len(blocks[i].Nodes)
	}
	at := make(map[string]Place, n)
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
