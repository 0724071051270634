package placement

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// group is the nodes of one unit.
type group struct {
	unit
	names topology.CandidateNames
	// aliases are names that a block made from labels of the unit may have.
	aliases topology.CandidateNames
	nodes   []int // indices into the site's facts, ascending
	// domain is how many nodes name the unit now, those without a name in Slurm too.
	domain int
}

// grouping is the nodes of every unit together: cliques first, then labelled
// domains or leaves, each in their own order.
type grouping struct {
	assignment
	groups []group
	of     []int32 // beside the site's facts: index into groups, or none
	// unnamed are how many nodes each unit has of which no node has a name in Slurm.
	unnamed []int
}

// groupNodes gathers the nodes of each unit.
func groupNodes(s *site, a assignment) grouping {
	g := grouping{assignment: a, of: slices.Repeat([]int32{none}, len(a.read))}
	known := make(map[unit]int) // index into groups
	for i := range a.read {
		u := a.units[i]
		if u == (unit{}) {
			continue
		}
		at, ok := known[u]
		if !ok {
			at = len(g.groups)
			known[u] = at
			g.groups = append(g.groups, newGroup(&a, u))
		}
		g.groups[at].nodes = append(g.groups[at].nodes, i)
	}
	slices.SortFunc(g.groups, func(x, y group) int { return x.compare(y.unit) })
	for at := range g.groups {
		for _, i := range g.groups[at].nodes {
			g.of[i] = int32(at)
		}
	}
	countDomains(s, &g)
	return g
}

// countDomains counts the nodes of each unit, those without a name in Slurm too.
func countDomains(s *site, g *grouping) {
	for at := range g.groups {
		g.groups[at].domain = len(g.groups[at].nodes)
	}
	var named [][]unit // of each node without a name that names any
	for i := range s.unnamed {
		if units := s.unitsNamed(len(s.facts) + i); len(units) > 0 {
			named = append(named, units)
		}
	}
	if len(named) == 0 {
		return
	}
	known := make(map[unit]int32)
	for i := range s.facts {
		if g.of[i] == none {
			continue
		}
		for _, u := range s.unitsNamed(i) {
			if _, ok := known[u]; !ok {
				known[u] = g.of[i]
			}
		}
	}
	others := make(map[unit]int)
	for _, units := range named {
		if at := slices.IndexFunc(units, func(u unit) bool { _, ok := known[u]; return ok }); at >= 0 {
			g.groups[known[units[at]]].domain++
		} else {
			others[units[0]]++
		}
	}
	for _, n := range others {
		if n >= s.policy.MinBlockNodes {
			g.unnamed = append(g.unnamed, n)
		}
	}
	slices.Sort(g.unnamed)
}

// unitsNamed returns the units that facts name, the surest first. i counts as factsAt does.
func (s *site) unitsNamed(i int) []unit {
	f := s.factsAt(i)
	if s.policy.ByLeaf {
		return leavesNamed(f)
	}
	var units []unit
	r := s.readDomain(f)
	if !r.clique.IsZero() {
		units = append(units, unit{clique: r.clique})
	}
	if d := s.labelOf(f); d.Key != "" && r.source != unknown {
		units = append(units, unit{label: d})
	}
	return units
}

// leavesNamed returns the names of the leaf switch of a node with GPUs, the surest first. Several writers
// may name one leaf differently, and another node may have labels of one writer alone.
func leavesNamed(f *topology.Facts) (leaves []unit) {
	if f.Stays != "" || !f.Computes() {
		return nil
	}
	add := func(tiers []string) {
		if len(tiers) > 0 && tiers[0] != "" {
			leaves = append(leaves, unit{label: topology.Domain{Value: tiers[0]}})
		}
	}
	add(f.Tiers())
	add(f.Labels.Tiers) // if the report names its switches
	for i := range f.Labels.MoreTiers {
		add(f.Labels.MoreTiers[i].Tiers)
	}
	return leaves
}

func newGroup(a *assignment, u unit) group {
	g := group{unit: u, names: u.blockNames()}
	if label, ok := a.labels[u.clique]; ok {
		g.aliases = label.BlockNames()
	}
	return g
}

// assignLeaves makes the nodes below each leaf switch a unit. It is done instead of
// resolveLabels if Policy.ByLeaf is set.
func assignLeaves(s *site, read readings, t tree) assignment {
	a := assignment{read: make(readings, len(read)), units: make([]unit, len(read))}
	for i, f := range s.facts {
		switch {
		case f.Stays != "" || f.Gone:
			a.read[i] = read[i]
		case !read[i].hasGPUs:
			a.read[i] = keptReading(ReasonNoGPUs, "no report and no label says that the node has a GPU")
		case t.namedLeaf(i) == "":
			a.read[i] = keptReading(ReasonTiersMissing, "no report and no label names the leaf switch above it")
		default:
			a.read[i].source, a.units[i].label.Value = fromSwitch, t.namedLeaf(i)
		}
	}
	return a
}

// leaveOutOtherKind takes published blocks of another kind than the plan's out of
// the site: leaves if NVLink domains are wanted, or the reverse. Blocks that a node
// may still register with stay, empty.
func (s *site) leaveOutOtherKind() {
	if !s.prev.otherKind {
		return
	}
	var inUse []publishedBlock
	for _, b := range s.prev.blocks {
		if !s.prev.elsewhere && s.inUse(b.Name) {
			inUse = append(inUse, publishedBlock{&topology.Block{Name: b.Name}, s.policy.kind(), len(inUse)})
		}
	}
	s.prev.base, s.prev.topologies, s.prev.blocks = 0, nil, inUse
	if len(inUse) > 0 {
		s.prev.topologies = []topology.Topology{{Name: s.policy.kind()}}
	}
}

// isOtherKind reports whether the nodes of a published plan are in blocks of another kind. An
// empty block was left before, and a topology.conf does not tell.
func isOtherKind(old *topology.Plan, byLeaf bool) bool {
	if !byLeaf {
		return old.ByLeaf
	}
	return !old.ByLeaf && slices.ContainsFunc(old.Blocks(), func(b topology.Block) bool {
		return len(b.Nodes) > 0 && (topology.IsCliqueBlock(b.Name) || topology.IsLabelBlock(b.Name))
	})
}
