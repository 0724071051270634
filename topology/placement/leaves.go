package placement

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// assignLeaves makes the nodes below each leaf switch a unit. It is done instead of
// resolveLabels if Policy.ByLeaf is set.
func assignLeaves(s *site, read readings, paths tierPaths) assignment {
	a := assignment{read: make(readings, len(read)), ids: make([]identity, len(read))}
	known := make(map[string]int32)
	for i, f := range s.facts {
		switch {
		case f.Stays != "" || f.Gone:
			a.read[i] = read[i]
		case !read[i].hasGPUs:
			a.read[i] = keptReading(ReasonNoGPUs, "nothing says that the node has a GPU")
		case len(paths.of(i)) == 0 || paths.of(i)[0] == "":
			a.read[i] = keptReading(ReasonTiersMissing, "nothing names the leaf switch above it")
		default:
			leaf := paths[i][0]
			if known[leaf] == 0 {
				a.units = append(a.units, topology.Domain{Value: leaf})
				known[leaf] = int32(len(a.units))
			}
			a.read[i].source, a.ids[i].unit = fromSwitch, known[leaf]
		}
	}
	return a
}

// withoutOtherKind returns what was published without blocks of another kind than
// the plan's: leaves if NVLink domains are wanted, or the reverse. Blocks that a
// node may still register with stay, empty.
func withoutOtherKind(prev Previous, policy *Policy) Previous {
	if !prev.hasOtherKind(policy.ByLeaf) {
		return prev
	}
	var inUse []Block
	for _, b := range prev.Blocks {
		if !prev.BlocksElsewhere && policy.inUse(&prev, b.Name) {
			inUse = append(inUse, Block{Name: b.Name})
		}
	}
	prev.BaseBlockSize, prev.Blocks = 0, inUse
	return prev
}

// hasOtherKind reports whether nodes are published in blocks of another kind. An
// empty block was left before.
func (p *Previous) hasOtherKind(byLeaf bool) bool {
	if !byLeaf {
		return p.ByLeaf
	}
	return !p.ByLeaf && slices.ContainsFunc(p.Blocks, func(b Block) bool {
		return len(b.Nodes) > 0 && (isCliqueName(b.Name) || isLabelName(b.Name))
	})
}
