package placement

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology/placement/tree"
)

// Moved returns the Slurm names of the published nodes that a plan puts
// elsewhere or nowhere, sorted, and how many nodes were published. Of a tree the
// whole way from leaf to root counts; switches that come above what was the root
// move nothing.
func Moved(prev *Previous, plan *Plan) (nodes []string, of int) {
	was, is := prev.Places(), placesOf(plan.Blocks, plan.Switches)
	wasAbove, isAbove := parentsOf(prev.Switches), parentsOf(plan.Switches)
	same := make(map[[2]string]bool) // leaf before and now -> the way up is the same
	for n, w := range was {
		i := is[n]
		leaves := [2]string{w.Leaf, i.Leaf}
		stays, known := same[leaves]
		if !known {
			stays = begins(w.Leaf, wasAbove, i.Leaf, isAbove)
			same[leaves] = stays
		}
		if w.Block != "" && i.Block != w.Block || !stays {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes, len(was)
}

// begins reports whether the way up from the switch is begins with all of that
// from the switch was.
func begins(was string, wasAbove map[string]string, is string, isAbove map[string]string) bool {
	for range tree.MaxTiers {
		if was == "" || was != is {
			break
		}
		was, is = wasAbove[was], isAbove[is]
	}
	return was == ""
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

// Place is where a topology has a node: its block and its leaf switch, each empty
// where it has none.
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
