package placement

import (
	"fmt"
	"slices"
	"strings"
)

// majorityOf returns the identity of more than half of the nodes, noUnit without one.
func majorityOf(found []witness) identity {
	total := 0
	for _, w := range found {
		total += w.nodes
	}
	for _, w := range found {
		if 2*w.nodes > total {
			return w.identity
		}
	}
	return noUnit
}

// contradiction says in words that the domain's nodes have several identities.
func (r *resolver) contradiction(d *labelDomain, found []witness) string {
	parts := make([]string, len(found))
	for i, w := range found {
		parts[i] = fmt.Sprintf("%s (node %s", r.identityName(w.identity), r.site.facts[w.first].Name)
		if w.nodes > 1 {
			parts[i] += fmt.Sprintf(" and %d more", w.nodes-1)
		}
		parts[i] += ")"
	}
	if len(parts) > 3 {
		parts = append(parts[:3], fmt.Sprintf("%d more", len(found)-3))
	}
	return fmt.Sprintf("label %s is on nodes of %d NVLink domains: %s", d.Domain, len(found), strings.Join(parts, ", "))
}

// refuseShared takes two values of one label that stand for the same domain as a
// contradiction: one of them is wrong.
func (r *resolver) refuseShared() {
	type sense struct {
		identity
		key string
	}
	first := make(map[sense]int)
	for i := range r.domains {
		d := &r.domains[i]
		if d.conflict != "" || d.meaning.unit == int32(i) {
			continue
		}
		at := sense{d.meaning, d.Key}
		other, shared := first[at]
		if !shared {
			first[at] = i
			continue
		}
		d.conflict = fmt.Sprintf("label %s has the values %s and %s on nodes of %s", d.Key, r.domains[other].Value, d.Value, r.identityName(d.meaning))
		r.domains[other].conflict = d.conflict
	}
}

// conflicts names each value that is not used, and each node that the majority of
// the others contradicts.
func (r *resolver) conflicts() problems {
	var found problems
	named := make(map[string]bool)
	for i := range r.domains {
		d := &r.domains[i]
		if d.conflict == "" || named[d.conflict] {
			continue
		}
		named[d.conflict] = true
		found.add("", ReasonDomainConflict, d.conflict+"; reports are followed, and nodes with the label alone stay where they are published, or are left out")
		if d.majority == noUnit {
			continue
		}
		for n, f := range r.site.facts {
			clique := r.read[n].clique
			if clique.IsZero() || d.majority == ofClique(clique) || !slices.Contains(f.Labels.Domains, d.Domain) {
				continue
			}
			found.add(f.Name, ReasonDomainDiffers, fmt.Sprintf("it is in clique %s, and its label %s is mostly on nodes of %s; the clique is followed", clique, d.Domain, r.identityName(d.majority)))
		}
	}
	return found
}

func (r *resolver) identityName(id identity) string {
	if id.unit != none {
		return r.domains[id.unit].String()
	}
	return "clique " + id.clique.String()
}
