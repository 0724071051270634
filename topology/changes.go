package topology

import "slices"

// Moved returns the Slurm names of the published nodes that a plan puts
// elsewhere or nowhere, sorted, and how many nodes were published. Of a tree the
// whole way from leaf to root counts; switches that come above what was the root
// move nothing.
func Moved(prev *Previous, plan *Plan) (nodes []string, of int) {
	was, is := placesOf(prev.Blocks, prev.Switches), placesOf(plan.Blocks, plan.Switches)
	wasAbove, isAbove := parentsOf(prev.Switches), parentsOf(plan.Switches)
	same := make(map[[2]string]bool) // leaf before and now -> the way up is the same
	for n, w := range was {
		i := is[n]
		leaves := [2]string{w.leaf, i.leaf}
		stays, known := same[leaves]
		if !known {
			stays = begins(w.leaf, wasAbove, i.leaf, isAbove)
			same[leaves] = stays
		}
		if w.block != "" && i.block != w.block || !stays {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes, len(was)
}

// begins reports whether the way up from the switch is begins with all of that
// from the switch was.
func begins(was string, wasAbove map[string]string, is string, isAbove map[string]string) bool {
	for range maxTiers {
		if was == "" || was != is {
			break
		}
		was, is = wasAbove[was], isAbove[is]
	}
	return was == ""
}

// place is where a topology has a node.
type place struct{ block, leaf string }

func placesOf(blocks []Block, switches []Switch) map[string]place {
	n := 0
	for i := range blocks {
		n += len(blocks[i].Nodes)
	}
	at := make(map[string]place, n)
	for i := range blocks {
		for _, n := range blocks[i].Nodes {
			at[n] = place{block: blocks[i].Name}
		}
	}
	for i := range switches {
		for _, n := range switches[i].Nodes {
			at[n] = place{at[n].block, switches[i].Name}
		}
	}
	return at
}

func parentsOf(switches []Switch) map[string]string {
	above := make(map[string]string, len(switches))
	for i := range switches {
		for _, c := range switches[i].Children {
			above[c] = switches[i].Name
		}
	}
	return above
}
