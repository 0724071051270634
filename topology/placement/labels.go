package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// assignment says which nodes are together, by NVLink domain or by leaf switch.
type assignment struct {
	read readings
	// units are beside read.
	units []unit
	// labels are the values of labels that stand for a clique.
	labels map[topology.Clique]topology.Domain
}

// chooseDomainLabel returns the label that names the NVLink domains of the site by values of its own: the one
// that most nodes have. Domains by several writers would be two answers for one rack.
func (s *site) chooseDomainLabel() string {
	type tally struct {
		key          string
		nodes, after int // after: how many labels go before this one on the nodes
	}
	var tallies []tally
	for i := range len(s.facts) + len(s.unnamed) {
		for after, d := range s.factsAt(i).Labels.Domains {
			at := slices.IndexFunc(tallies, func(t tally) bool { return t.key == d.Key })
			if at < 0 {
				at = len(tallies)
				tallies = append(tallies, tally{key: d.Key})
			}
			tallies[at].nodes++
			tallies[at].after += after
		}
	}
	if len(tallies) == 0 {
		return ""
	}
	return slices.MinFunc(tallies, func(a, b tally) int {
		return cmp.Or(cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.after, b.after), strings.Compare(a.key, b.key))
	}).key
}

// labelOf returns the node's NVLink domain by the site's label. It is zero without one.
func (s *site) labelOf(f *topology.Facts) topology.Domain {
	for _, d := range f.Labels.Domains {
		if d.Key == s.domainLabel {
			return d
		}
	}
	return topology.Domain{}
}

// labelText returns in words what the node's labels say of its NVLink domain.
func (s *site) labelText(f *topology.Facts) string {
	if f.Labels.Clique.IsZero() {
		return s.labelOf(f).String()
	}
	return f.Labels.DomainText()
}

// How a node knows its clique, the surest first.
const (
	byTwoReadings = iota
	byOneReading
	byLabel
	witnesses
)

// labelValue is a value of the site's label, with the cliques of the nodes that have it.
type labelValue struct {
	topology.Domain
	// counts are how many nodes name each clique in NVML's form, by how they know the clique.
	counts [witnesses]map[topology.Clique]int
	// clique is what the value stands for. If it is zero, the value stands for itself.
	clique topology.Clique
	// conflict is why the value is not used, or "".
	conflict string
}

// settle decides what the value stands for: the clique of more than half of the nodes that know theirs the
// surest.
func (v *labelValue) settle() {
	at := slices.IndexFunc(v.counts[:], func(nodes map[topology.Clique]int) bool { return len(nodes) > 0 })
	if at < 0 {
		return
	}
	nodes, total := v.counts[at], 0
	for clique, n := range nodes {
		if total += n; n > nodes[v.clique] {
			v.clique = clique
		}
	}
	if 2*nodes[v.clique] > total {
		return
	}
	named := slices.SortedFunc(maps.Keys(nodes), topology.Clique.Compare)
	v.clique, v.conflict = topology.Clique{}, fmt.Sprintf("label %s is on nodes of %d NVLink domains, such as cliques %s and %s", v.Domain, len(named), named[0], named[1])
}

// refuseShared refuses two values that stand for one clique: one of them is wrong.
func refuseShared(values []*labelValue) {
	first := make(map[topology.Clique]*labelValue)
	for _, v := range values {
		other := first[v.clique]
		switch {
		case v.clique.IsZero():
		case other == nil:
			first[v.clique] = v
		default:
			v.conflict = fmt.Sprintf("label %s has the values %s and %s on nodes of clique %s", v.Key, other.Value, v.Value, v.clique)
			other.conflict = v.conflict
		}
	}
}

// resolveLabels finds the NVLink domain of every node. The value of a label stands for the clique of most of the
// nodes that have the value, and for itself if no such node has a clique. A value that contradicts others is
// not used.
func resolveLabels(s *site, read readings) (assignment, problems) {
	a := assignment{read: read, units: make([]unit, len(read)), labels: make(map[topology.Clique]topology.Domain)}
	values, valueOf := s.readValues(read)
	for _, v := range values {
		v.settle()
	}
	refuseShared(values)
	var found problems
	said := make(map[string]bool)
	for _, v := range values {
		switch {
		case v.conflict != "" && !said[v.conflict]:
			said[v.conflict] = true
			found.add("", ReasonDomainConflict, v.conflict+"; reports are followed, and nodes with the label alone stay where they are published, or are left out")
		case v.conflict == "" && !v.clique.IsZero():
			a.labels[v.clique] = v.Domain
		}
	}
	if len(found) > 0 { // nodes with these values alone get another reading
		a.read = slices.Clone(read)
	}
	for i, f := range s.facts {
		v, r := valueOf[i], &read[i]
		a.units[i].clique = r.clique
		switch {
		case v == nil:
		case !r.clique.IsZero() && !v.clique.IsZero() && r.clique != v.clique:
			found.add(f.Name, ReasonDomainDiffers, fmt.Sprintf("it is in clique %s, and its label %s is mostly on nodes of clique %s; the clique is followed", r.clique, v.Domain, v.clique))
		case !r.clique.IsZero() || r.source != fromLabel:
		case v.conflict != "":
			a.read[i] = keptReading(ReasonDomainConflict, "only a label names its NVLink domain, and "+v.conflict)
			a.read[i].hasGPUs = r.hasGPUs
		case !v.clique.IsZero():
			a.units[i].clique = v.clique
		default:
			a.units[i].label = v.Domain
		}
	}
	return a, found
}

// readValues collects the values of the site's label. The second result has the value of each node, beside facts.
func (s *site) readValues(read readings) (values []*labelValue, valueOf []*labelValue) {
	valueOf = make([]*labelValue, len(read))
	known := make(map[topology.Domain]*labelValue)
	for i, f := range s.facts {
		d := s.labelOf(f)
		if d.Key == "" || f.Stays != "" {
			continue
		}
		v := known[d]
		if v == nil {
			v = &labelValue{Domain: d}
			known[d], values = v, append(values, v)
		}
		valueOf[i] = v
		v.count(f, &read[i])
	}
	s.countPublished(values, read)
	return values, valueOf
}

// countPublished counts nodes without the label that are published in the block of a value: they had it.
func (s *site) countPublished(values []*labelValue, read readings) {
	byName := make(map[string]*labelValue)
	for _, v := range values {
		for _, name := range v.BlockNames() {
			byName[name] = v
		}
	}
	for i, f := range s.facts {
		if b := s.block(i); b != none && s.labelOf(f).Key == "" {
			if v := byName[s.prev.blocks[b].Name]; v != nil {
				v.count(f, &read[i])
			}
		}
	}
}

func (v *labelValue) count(f *topology.Facts, r *reading) {
	by := byLabel
	switch {
	case r.clique.IsZero():
		return
	case r.source == fromNVML && f.Report.Domain.Clique == r.clique:
		by = byTwoReadings
	case r.source == fromNVML:
		by = byOneReading
	}
	if v.counts[by] == nil {
		v.counts[by] = make(map[topology.Clique]int)
	}
	v.counts[by][r.clique]++
}
