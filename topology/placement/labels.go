package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// chooseDomainLabel finds the label that names the NVLink domains of the site by values of its own: the one
// that most nodes have. Domains by several writers would be two answers for one rack.
func chooseDomainLabel(nodes []*node) {
	type tally struct {
		key          string
		nodes, after int // after: how many labels go before this one on the nodes
	}
	var tallies []tally
	for _, n := range nodes {
		for after, d := range n.Labels.Domains {
			at := indexOrAdd(&tallies, func(t tally) bool { return t.key == d.Key }, tally{key: d.Key})
			tallies[at].nodes++
			tallies[at].after += after
		}
	}
	if len(tallies) == 0 {
		return
	}
	chosen := slices.MinFunc(tallies, func(a, b tally) int {
		return cmp.Or(cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.after, b.after), strings.Compare(a.key, b.key))
	}).key
	for _, n := range nodes {
		switch at := slices.IndexFunc(n.Labels.Domains, func(d topology.Domain) bool { return d.Key == chosen }); {
		case at >= 0:
			n.label = n.Labels.Domains[at]
		case len(n.Labels.Domains) > 0:
			n.unused = fmt.Sprintf("its label %s is not used, because more nodes have label %s", n.Labels.Domains[0].Key, chosen)
		}
	}
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

// resolve decides what the value stands for: the clique of more than half of the nodes that know theirs the
// surest.
func (v *labelValue) resolve() {
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
// not used. aliases are the values that stand for a clique.
func resolveLabels(nodes []*node) (aliases map[topology.Clique]topology.Domain, found problems) {
	values, known := readValues(nodes)
	for _, v := range values {
		v.resolve()
	}
	refuseShared(values)
	aliases = make(map[topology.Clique]topology.Domain)
	said := make(map[string]bool)
	for _, v := range values {
		switch {
		case v.conflict != "" && !said[v.conflict]:
			said[v.conflict] = true
			found.add("", ReasonLabelConflict, v.conflict+"; reports are followed, and nodes with the label alone stay where they are published, or are left out")
		case v.conflict == "" && !v.clique.IsZero():
			aliases[v.clique] = v.Domain
		}
	}
	for _, n := range nodes {
		n.unit.clique = n.clique
		v := known[n.label]
		switch {
		case v == nil || n.Stays != "":
		case !n.clique.IsZero() && !v.clique.IsZero() && n.clique != v.clique:
			found.add(n.Name, topology.ReasonLabelDiffers, fmt.Sprintf("it is in clique %s, and its label %s is mostly on nodes of clique %s; the clique is followed", n.clique, v.Domain, v.clique))
		case !n.clique.IsZero() || n.source != fromLabel:
		case v.conflict != "":
			n.stay(ReasonLabelConflict, "only a label names its NVLink domain, and "+v.conflict)
		case !v.clique.IsZero():
			n.unit.clique = v.clique
		default:
			n.unit.label = v.Domain
		}
	}
	return aliases, found
}

// readValues collects the values of the site's label. A node without the label that is published in the block of a
// value counts too: it had the label.
func readValues(nodes []*node) (values []*labelValue, known map[topology.Domain]*labelValue) {
	known = make(map[topology.Domain]*labelValue)
	for _, n := range nodes {
		if n.label.Key == "" || n.Stays != "" {
			continue
		}
		v := known[n.label]
		if v == nil {
			v = &labelValue{Domain: n.label}
			known[n.label], values = v, append(values, v)
		}
		v.count(n)
	}
	byName := make(map[string]*labelValue)
	for _, v := range values {
		for _, name := range v.BlockNames() {
			byName[name] = v
		}
	}
	for _, n := range nodes {
		if n.old != nil && n.label.Key == "" {
			if v := byName[n.old.Name]; v != nil {
				v.count(n)
			}
		}
	}
	return values, known
}

func (v *labelValue) count(n *node) {
	by := byLabel
	switch {
	case n.clique.IsZero():
		return
	case n.source == fromNVML && n.Report.Domain.Clique == n.clique:
		by = byTwoReadings
	case n.source == fromNVML:
		by = byOneReading
	}
	if v.counts[by] == nil {
		v.counts[by] = make(map[topology.Clique]int)
	}
	v.counts[by][n.clique]++
}
