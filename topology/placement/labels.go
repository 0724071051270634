package placement

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// identity is what a node's unit is known by: its clique, else the index into
// assignment.units, which is none for a clique.
type identity struct {
	clique topology.Clique
	unit   int32
}

// ofClique is the identity of a clique. That of the zero clique is no unit.
func ofClique(c topology.Clique) identity { return identity{clique: c, unit: none} }

// noUnit is the identity of a node without a unit.
var noUnit = ofClique(topology.Clique{})

// assignment says which nodes are together, by NVLink domain or by leaf switch.
type assignment struct {
	read readings
	// ids, beside read, are the units of the nodes. nil: they are the cliques.
	ids []identity
	// units are the domains that labels name by a value of their own, or the leaf
	// switches. A leaf has no key.
	units []topology.Domain
	// aliases are units that stand for another identity, by that identity. It is the
	// one of the first node that has it.
	aliases map[identity][]topology.Domain
}

// labelDomain is an NVLink domain that labels name by a value of their own, with
// what is known of the nodes that carry the label.
type labelDomain struct {
	topology.Domain
	witnesses []witness
	meaning   identity
	state     resolution
	// conflict is why the label's value is not used. It is empty if the value
	// stands for meaning.
	conflict string
	// majority is what most nodes are that contradict each other, noUnit without a
	// majority.
	majority identity
}

// witness is how many nodes with a label have an identity that goes before it, and
// the first of them.
type witness struct {
	identity
	nvml  bool
	nodes int
	first int
}

type resolution int8

const (
	unresolved resolution = iota
	resolving
	resolved
)

// resolver finds which NVLink domains the values of labels stand for.
type resolver struct {
	site    *site
	read    readings
	first   []int32 // beside facts: index into domains of the one that stands for the node's own, or none
	domains []labelDomain
	known   map[topology.Domain]int32 // index into domains
}

// resolveLabels finds the NVLink domain of every node. The value of a label stands
// for the clique of the nodes that carry it and have one, and for the value of a
// label that goes before it on the same nodes. A value whose nodes contradict each
// other is not used. A value without any such node stands for itself.
func resolveLabels(s *site, read readings) (assignment, problems) {
	r := resolver{site: s, read: read, first: slices.Repeat([]int32{none}, len(read)), known: map[topology.Domain]int32{}}
	r.readWitnesses()
	if len(r.domains) == 0 {
		return assignment{read: read}, nil
	}
	r.readPublished()
	for d := range r.domains {
		r.resolve(int32(d))
	}
	r.refuseShared()
	return r.assign(), r.conflicts()
}

// assign gives every node the identity of its clique, or what the first of its
// labels stands for.
func (r *resolver) assign() assignment {
	a := assignment{read: slices.Clone(r.read), ids: make([]identity, len(r.read)), units: make([]topology.Domain, len(r.domains)), aliases: map[identity][]topology.Domain{}}
	for i, d := range r.first {
		if a.ids[i] = ofClique(r.read[i].clique); d == none {
			continue
		}
		if domain := &r.domains[d]; domain.conflict == "" {
			a.ids[i] = domain.meaning
		} else {
			a.read[i] = keptReading(ReasonDomainConflict, "only a label names its NVLink domain, and "+domain.conflict)
			a.read[i].hasGPUs = r.read[i].hasGPUs
		}
	}
	for i := range r.domains {
		d := &r.domains[i]
		a.units[i] = d.Domain
		if d.conflict == "" && len(d.witnesses) > 0 && a.ids[d.witnesses[0].first] == d.meaning {
			a.aliases[d.meaning] = append(a.aliases[d.meaning], d.Domain)
		}
	}
	return a
}

// identity returns the unit of a node, noUnit if it has none.
func (a *assignment) identity(node int) identity {
	if a.ids == nil {
		return ofClique(a.read[node].clique)
	}
	return a.ids[node]
}

// readWitnesses collects the values of labels and what goes before them on their
// nodes.
func (r *resolver) readWitnesses() {
	var last []topology.Domain // the labels of the node before, and their indices
	var indices []int32
	for i, f := range r.site.facts {
		named := f.Labels.Domains
		if len(named) == 0 || f.Stays != "" {
			continue
		}
		if !slices.Equal(named, last) {
			last, indices = named, r.indices(named)
		}
		node := &r.read[i]
		by, rest := ofClique(node.clique), indices
		switch {
		case !node.clique.IsZero():
		case !node.keep && node.source != fromLabel: // NVML says that there is no domain
			continue
		default:
			by, rest = identity{unit: indices[0]}, indices[1:]
			if node.source == fromLabel {
				r.first[i] = indices[0]
			}
		}
		for _, d := range rest {
			r.domains[d].add(by, node.source == fromNVML, i)
		}
	}
}

// readPublished adds a node that has lost its label, and that is published in the
// block of a value, as one that carries the value.
func (r *resolver) readPublished() {
	s := r.site
	byName := make(map[string]int, 3*len(r.domains))
	for d := range r.domains {
		for _, name := range r.domains[d].BlockNames() {
			byName[name] = d
		}
	}
	for i, f := range s.facts {
		c, b := r.read[i].clique, s.block(i)
		if c.IsZero() || b == none || !topology.IsLabelBlock(s.prev.blocks[b].Name) {
			continue
		}
		d, ok := byName[s.prev.blocks[b].Name]
		if ok && !slices.ContainsFunc(f.Labels.Domains, func(l topology.Domain) bool { return l.Key == r.domains[d].Key }) {
			r.domains[d].add(ofClique(c), r.read[i].source == fromNVML, i)
		}
	}
}

// indices returns the indices of domains, and adds the unknown ones.
func (r *resolver) indices(named []topology.Domain) []int32 {
	indices := make([]int32, len(named))
	for n, d := range named {
		index, ok := r.known[d]
		if !ok {
			index = int32(len(r.domains))
			r.domains = append(r.domains, labelDomain{Domain: d, majority: noUnit})
			r.known[d] = index
		}
		indices[n] = index
	}
	return indices
}

func (d *labelDomain) add(by identity, nvml bool, node int) {
	for i := range d.witnesses {
		if w := &d.witnesses[i]; w.identity == by && w.nvml == nvml {
			w.nodes++
			return
		}
	}
	d.witnesses = append(d.witnesses, witness{by, nvml, 1, node})
}

// resolve returns what the domain stands for: itself without a witness. It returns
// false if the domain's nodes contradict each other.
func (r *resolver) resolve(index int32) (identity, bool) {
	d := &r.domains[index]
	itself := identity{unit: index}
	switch d.state {
	case resolving: // labels in two orders of precedence
		return itself, true
	case resolved:
		return d.meaning, d.conflict == ""
	}
	d.state = resolving
	reported := slices.ContainsFunc(d.witnesses, func(w witness) bool { return w.nvml })
	var found []witness
	for _, w := range d.witnesses {
		if reported && !w.nvml {
			continue
		}
		if w.unit != none {
			meaning, ok := r.resolve(w.unit)
			if !ok {
				continue
			}
			w.identity = meaning
		}
		if at := slices.IndexFunc(found, func(f witness) bool { return f.identity == w.identity }); at >= 0 {
			found[at].nodes += w.nodes
		} else {
			found = append(found, w)
		}
	}
	d.state, d.meaning = resolved, itself
	switch len(found) {
	case 0:
	case 1:
		d.meaning = found[0].identity
	default:
		d.majority = majorityOf(found)
		d.conflict = r.contradiction(d, found)
	}
	return d.meaning, d.conflict == ""
}
