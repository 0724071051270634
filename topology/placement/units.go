package placement

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// unit is what the nodes of a block have in common: a clique, an NVLink domain that a label names by a value
// of its own, or a leaf switch, which has no key. The zero unit is none.
type unit struct {
	clique topology.Clique
	label  topology.Domain
}

func (u unit) isLeaf() bool { return u.clique.IsZero() && u.label.Key == "" }

// title names the unit in words.
func (u unit) title() string {
	switch {
	case !u.clique.IsZero():
		return "NVLink domain " + u.clique.String()
	case u.isLeaf():
		return "leaf switch " + u.label.Value
	}
	return "NVLink domain " + u.label.String()
}

// blockNames returns the names that a block of the unit may have.
func (u unit) blockNames() topology.CandidateNames {
	switch {
	case !u.clique.IsZero():
		return u.clique.BlockNames()
	case u.isLeaf():
		return topology.LeafBlockNames(u.label.Value)
	}
	return u.label.BlockNames()
}

// compare orders cliques before other units.
func (u unit) compare(v unit) int {
	switch {
	case u.clique == v.clique:
		return u.label.Compare(v.label)
	case u.clique.IsZero():
		return 1
	case v.clique.IsZero():
		return -1
	}
	return u.clique.Compare(v.clique)
}

// unitsNamed returns the units that a node names, the surest first. Several writers may name one leaf switch
// differently, and another node may have labels of one writer alone.
func (n *node) unitsNamed(policy *Policy) (units []unit) {
	if policy.ByLeaf && n.Stays == "" && n.Computes() {
		all := [][]string{n.Tiers(), n.Labels.Tiers} // the second, if the report names its switches
		for i := range n.Labels.MoreTiers {
			all = append(all, n.Labels.MoreTiers[i].Tiers)
		}
		for _, tiers := range all {
			if len(tiers) > 0 && tiers[0] != "" {
				units = append(units, unit{label: topology.Domain{Value: tiers[0]}})
			}
		}
	}
	if policy.ByLeaf {
		return units
	}
	if !n.clique.IsZero() {
		units = append(units, unit{clique: n.clique})
	}
	if n.label.Key != "" && (n.source == fromNVML || n.source == fromLabel) {
		units = append(units, unit{label: n.label})
	}
	return units
}

// domain is the nodes of one unit, and the block that they make. Or it is a published block whose unit no node
// names now.
type domain struct {
	unit  // zero if no node names one
	names topology.CandidateNames
	// aliases are names that a block made from labels of the unit may have.
	aliases topology.CandidateNames
	nodes   []*node   // in the order of their Slurm names
	old     *oldBlock // or nil
	name    string
	// size is the most nodes that the domain has had, those without a name in Slurm too.
	size int
	// twin: another block is the same domain. The block stays, empty, while it is in use.
	twin bool
	// leaves: the domain is a published block without nodes that leaves the plan.
	leaves bool
	// position is its published position in its topology, from 1. It is 0 if the block is new there.
	position int
	// fabric is the root switch above most of its nodes, and above the named switches above their leaves. parent
	// names what its neighbours share. Each is empty if it is not known.
	fabric, above, parent string
	// section says what the topology of the rack is for, and wanted is its name. keptIn is the published topology that
	// keeps the rack while a decision about that topology waits, or "". waits is the decision that a rack without a
	// place waits for, or nil.
	section        section
	wanted, keptIn string
	waits          *Decision
}

// domains gathers the nodes of each unit: cliques first, then labelled domains or leaves, each in their own order.
// unnamedSizes counts the nodes of each unit that has no node with a name in Slurm.
func domains(nodes, unnamed []*node, aliases map[topology.Clique]topology.Domain, policy *Policy) (ds []*domain, unnamedSizes []int) {
	known := make(map[unit]*domain)
	for _, n := range nodes {
		if n.unit == (unit{}) {
			continue
		}
		d := known[n.unit]
		if d == nil {
			d = &domain{unit: n.unit, names: n.unit.blockNames()}
			if label, ok := aliases[d.clique]; ok {
				d.aliases = label.BlockNames()
			}
			known[n.unit], ds = d, append(ds, d)
		}
		d.nodes, n.block = append(d.nodes, n), d
	}
	slices.SortFunc(ds, func(a, b *domain) int { return a.compare(b.unit) })
	for _, d := range ds {
		d.size = len(d.nodes)
	}
	return ds, countUnnamed(nodes, unnamed, policy)
}

// countUnnamed adds the nodes without a name in Slurm to the sizes of the domains of other nodes, and returns the
// sizes of all further domains.
func countUnnamed(nodes, unnamed []*node, policy *Policy) (sizes []int) {
	if len(unnamed) == 0 {
		return nil
	}
	known := make(map[unit]*domain)
	for _, n := range nodes {
		if n.block == nil {
			continue
		}
		for _, u := range n.unitsNamed(policy) {
			if known[u] == nil {
				known[u] = n.block
			}
		}
	}
	others := make(map[unit]int)
	for _, n := range unnamed {
		units := n.unitsNamed(policy)
		switch at := slices.IndexFunc(units, func(u unit) bool { return known[u] != nil }); {
		case at >= 0:
			known[units[at]].size++
		case len(units) > 0:
			others[units[0]]++
		}
	}
	for _, n := range others {
		if n >= policy.minBlockNodes() {
			sizes = append(sizes, n)
		}
	}
	slices.Sort(sizes)
	return sizes
}
