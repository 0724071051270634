package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// labelled is an NVLink domain that labels name by a value of their own, and what
// is known of the nodes that carry it by something that goes before it.
type labelled struct {
	topology.Domain
	witnesses []witness
	is        identity
	state     resolution
	// conflict says why it stands for nothing, empty when it does.
	conflict string
	// most is what most of the nodes are that contradict each other, zero when
	// there is no majority.
	most identity
}

// identity is what an NVLink domain is known by: its clique, else the index into
// planner.domains, counted from 1.
type identity struct {
	clique topology.Clique
	domain int32
}

// witness is how many nodes that carry a label have an identity that goes before
// it, and the first of them.
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

// readDomains finds which NVLink domains the values of labels stand for. A value
// stands for the clique of the nodes that carry it and have one, and for the
// value of a label that goes before it on the same nodes. Where they contradict
// each other it stands for nothing; without any it stands for itself.
func (p *planner) readDomains() {
	if !p.witness() {
		return
	}
	p.witnessPublished()
	for d := range p.domains {
		p.resolve(int32(d + 1))
	}
	p.refuseShared()
	p.nameConflicts()
	for i := range p.read {
		r := &p.read[i]
		if r.domain == 0 {
			continue
		}
		d := &p.domains[r.domain-1]
		if d.conflict == "" {
			r.clique, r.domain = d.is.clique, d.is.domain
			continue
		}
		r.domain, r.keep = 0, true
		pl := &p.plan.Placements[i]
		pl.Source, pl.Reason, pl.Message = "", ReasonDomainConflict, "its NVLink domain is known by a label alone, and "+d.conflict
	}
}

// witness gathers the values of labels and what goes before them on their nodes.
// It reports whether there are any.
func (p *planner) witness() bool {
	known := make(map[topology.Domain]int32)
	var last []topology.Domain // those of the node before, and their indices
	var indices []int32
	for i, f := range p.facts {
		named := f.Labels.Domains
		if len(named) == 0 || f.Stays != "" {
			continue
		}
		if !slices.Equal(named, last) {
			last, indices = named, p.intern(known, named)
		}
		r := &p.read[i]
		pl := &p.plan.Placements[i]
		by, rest := identity{clique: r.clique}, indices
		switch {
		case !r.clique.IsZero():
		case !r.keep && pl.Source != string(fromLabel): // NVML says that there is no domain
			continue
		default:
			by, rest = identity{domain: indices[0]}, indices[1:]
			if pl.Source == string(fromLabel) {
				r.domain = indices[0]
			}
		}
		for _, d := range rest {
			p.domains[d-1].add(by, pl.Source == string(fromNVML), i)
		}
	}
	return len(p.domains) > 0
}

// witnessPublished takes a node that has lost its label and that is published in
// the block of a value as one that carries it.
func (p *planner) witnessPublished() {
	if len(p.prev.Blocks) == 0 {
		return
	}
	byName := make(map[string]int, 3*len(p.domains))
	for d := range p.domains {
		for _, name := range domainBlockNames(p.domains[d].Domain) {
			byName[name] = d
		}
	}
	for i, f := range p.facts {
		c, b := p.read[i].clique, p.was[i]
		if c.IsZero() || b < 0 || !isDomainName(p.prev.Blocks[b].Name) {
			continue
		}
		d, ok := byName[p.prev.Blocks[b].Name]
		if ok && !slices.ContainsFunc(f.Labels.Domains, func(l topology.Domain) bool { return l.Key == p.domains[d].Key }) {
			p.domains[d].add(identity{clique: c}, p.plan.Placements[i].Source == string(fromNVML), i)
		}
	}
}

func (p *planner) intern(known map[topology.Domain]int32, named []topology.Domain) []int32 {
	indices := make([]int32, len(named))
	for n, d := range named {
		index, ok := known[d]
		if !ok {
			p.domains = append(p.domains, labelled{Domain: d})
			index = int32(len(p.domains))
			known[d] = index
		}
		indices[n] = index
	}
	return indices
}

func (d *labelled) add(by identity, nvml bool, node int) {
	for i := range d.witnesses {
		if w := &d.witnesses[i]; w.identity == by && w.nvml == nvml {
			w.nodes++
			return
		}
	}
	d.witnesses = append(d.witnesses, witness{by, nvml, 1, node})
}

// resolve returns what the domain stands for, itself where it has no witness.
func (p *planner) resolve(index int32) (identity, bool) {
	d := &p.domains[index-1]
	itself := identity{domain: index}
	if d.state != unresolved {
		if d.state == resolving { // labels in two orders of precedence
			return itself, true
		}
		return d.is, d.conflict == ""
	}
	d.state = resolving
	reported := slices.ContainsFunc(d.witnesses, func(w witness) bool { return w.nvml })
	var found []witness
	for _, w := range d.witnesses {
		if reported && !w.nvml {
			continue
		}
		if w.domain != 0 {
			is, ok := p.resolve(w.domain)
			if !ok {
				continue
			}
			w.identity = is
		}
		if at := slices.IndexFunc(found, func(f witness) bool { return f.identity == w.identity }); at >= 0 {
			found[at].nodes += w.nodes
		} else {
			found = append(found, w)
		}
	}
	d = &p.domains[index-1]
	d.state, d.is = resolved, itself
	switch len(found) {
	case 0:
	case 1:
		d.is = found[0].identity
	default:
		d.conflict = p.contradiction(d, found)
	}
	return d.is, d.conflict == ""
}

// contradiction says in words that the domain's nodes are of several.
func (p *planner) contradiction(d *labelled, found []witness) string {
	total, parts := 0, make([]string, len(found))
	for i, w := range found {
		total += w.nodes
		parts[i] = fmt.Sprintf("%s (node %s", p.identityName(w.identity), p.facts[w.first].Name)
		if w.nodes > 1 {
			parts[i] += fmt.Sprintf(" and %d more", w.nodes-1)
		}
		parts[i] += ")"
	}
	for _, w := range found {
		if 2*w.nodes > total {
			d.most = w.identity
		}
	}
	if len(parts) > 3 {
		parts = append(parts[:3], fmt.Sprintf("%d more", len(found)-3))
	}
	return fmt.Sprintf("label %s is on nodes of %d NVLink domains: %s", d.Domain, len(found), strings.Join(parts, ", "))
}

// refuseShared takes values of one label that stand for the same domain as a
// contradiction: one of them is wrong.
func (p *planner) refuseShared() {
	type standing struct {
		identity
		key string
	}
	first := make(map[standing]int)
	for i := range p.domains {
		d := &p.domains[i]
		if d.conflict != "" || d.is.domain == int32(i+1) {
			continue
		}
		s := standing{d.is, d.Key}
		other, shared := first[s]
		if !shared {
			first[s] = i
			continue
		}
		d.conflict = fmt.Sprintf("label %s has the values %s and %s on nodes of %s", d.Key, p.domains[other].Value, d.Value, p.identityName(d.is))
		p.domains[other].conflict = d.conflict
	}
}

// nameConflicts adds a problem for each value that stands for nothing, and for
// each node that most of the others contradict.
func (p *planner) nameConflicts() {
	said := make(map[string]bool)
	for i := range p.domains {
		d := &p.domains[i]
		if d.conflict == "" || said[d.conflict] {
			continue
		}
		said[d.conflict] = true
		p.problem("", ReasonDomainConflict, d.conflict+"; a report is followed, and nodes of which only the label is known stay where they are published or are left out")
		if d.most == (identity{}) {
			continue
		}
		for n, f := range p.facts {
			if r := &p.read[n]; r.clique.IsZero() || d.most == (identity{clique: r.clique}) || !slices.Contains(f.Labels.Domains, d.Domain) {
				continue
			}
			p.problem(f.Name, ReasonDomainDiffers, fmt.Sprintf("it is in clique %s, and its label %s is mostly on nodes of %s; the clique is followed", p.read[n].clique, d.Domain, p.identityName(d.most)))
		}
	}
}

func (p *planner) identityName(id identity) string {
	if id.domain != 0 {
		return p.domains[id.domain-1].String()
	}
	return "clique " + id.clique.String()
}

// blockNames returns the names that a label's domain may have, the shortest
// first: the prefix, of the value what Slurm takes, 8 or more hex digits of the
// hash of key and value, and an x, by which they differ from those of cliques
// and end in no digit.
func domainBlockNames(d topology.Domain) [3]string {
	sum := sha256.Sum256([]byte(d.Key + "\x00" + d.Value))
	value := slurmLetters(d.Value)
	var names [3]string
	for i, bytes := range []int{4, 8, 16} {
		hash := "-" + hex.EncodeToString(sum[:bytes]) + "x"
		names[i] = blockPrefix + strings.Trim(value[:min(len(value), maxNameLength-len(blockPrefix)-len(hash))], "-_") + hash
	}
	return names
}

// isCliqueName reports whether a block is named after a clique.
func isCliqueName(name string) bool {
	rest, ok := strings.CutPrefix(name, blockPrefix)
	uuid, id, cut := strings.Cut(rest, "-")
	return ok && cut && (len(uuid) == 8 || len(uuid) == 16 || len(uuid) == 32) && strings.Trim(uuid, "0123456789abcdef") == "" &&
		id != "" && strings.Trim(id, "0123456789") == ""
}

// isDomainName reports whether a block is named after a labelled domain.
func isDomainName(name string) bool {
	rest, ok := strings.CutPrefix(name, blockPrefix)
	rest, x := strings.CutSuffix(rest, "x")
	hash := rest[strings.LastIndexByte(rest, '-')+1:]
	return ok && x && (len(hash) == 8 || len(hash) == 16 || len(hash) == 32) && strings.Trim(hash, "0123456789abcdef") == ""
}
