package nodelabels

import (
	"fmt"
	"iter"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

const reasonImpossible = "DomainLabelImpossible"

// named is an NVLink domain as labels name it.
type named struct {
	clique topology.Clique
	value  topology.Domain
}

func (d named) String() string {
	if d.value.Key == "" {
		return topology.CliqueLabel + ": " + d.clique.String()
	}
	return d.value.Key + ": " + d.value.Value
}

// members are the nodes whose labels name one domain.
type members struct {
	nodes, gpus int
	chip        string
	most        int // 0 if NVLink ends in the machine
	bounds      fabric.Bounds
	// ofSite: the site has configured the key of the label, so it knows how large the domain is.
	ofSite bool
	// unjudged: a node's product is not known, or NVML confirms that the node has a domain.
	unjudged bool
}

// impossible says why labels of these nodes can't name an NVLink domain. It is empty if they can.
func (m *members) impossible() string {
	switch {
	case m.unjudged || m.nodes < 2 || m.most > 0 && m.ofSite:
	case m.most == 0:
		return fmt.Sprintf("is on %d nodes, and NVLink of %s ends in the machine: it is no NVLink domain", m.nodes, m.chip)
	case m.gpus > m.most:
		return fmt.Sprintf("is on %d nodes with %d GPUs, and NVLink joins %d GPUs of %s at most: it is no NVLink domain", m.nodes, m.gpus, m.most, m.chip)
	}
	return ""
}

// CheckDomains takes labels off the facts that can't name an NVLink domain: more GPUs have the same
// value than the product's NVLink can join, or than the site's bounds say. Each such node gets a problem. The
// nodes of all lists count together. If the site has configured the key
// of a label, only a product whose NVLink ends in the machine speaks against it.
func CheckDomains(keys Keys, bounds fabric.Bounds, lists ...[]topology.Facts) {
	found := map[named]*members{}
	for _, facts := range lists {
		for i := range facts {
			for d := range domainsOf(&facts[i].Labels) {
				m := found[d]
				if m == nil {
					m = &members{bounds: bounds, ofSite: slices.Contains(keys.Domains, d.value.Key)}
					found[d] = m
				}
				m.add(&facts[i])
			}
		}
	}
	why := map[named]string{}
	for d, m := range found {
		if text := m.impossible(); text != "" {
			why[d] = text
		}
	}
	if len(why) == 0 {
		return
	}
	for _, facts := range lists {
		for i := range facts {
			l := &facts[i].Labels
			for d := range domainsOf(l) {
				text := why[d]
				if text == "" {
					continue
				}
				l.Problems = append(slices.Clone(l.Problems), topology.Finding{Reason: reasonImpossible, Message: "label " + d.String() + " " + text})
				if d.value.Key == "" {
					l.Clique = topology.Clique{}
				}
				l.Domains = slices.DeleteFunc(slices.Clone(l.Domains), func(of topology.Domain) bool { return of == d.value })
			}
		}
	}
}

func (m *members) add(f *topology.Facts) {
	if f.Report != nil && len(f.Report.GPUs) > 0 {
		_, confirmed := f.Report.GPUs[0].Fabric.Clique()
		m.unjudged = m.unjudged || confirmed
	}
	name, most, known := m.bounds.Of(f.Product())
	m.unjudged = m.unjudged || !known
	m.nodes++
	m.gpus += f.GPUCount()
	if m.chip == "" || most > m.most {
		m.chip, m.most = name, most
	}
}

// domainsOf returns the NVLink domains that the labels name.
func domainsOf(l *topology.Labels) iter.Seq[named] {
	clique, values := l.Clique, l.Domains
	return func(yield func(named) bool) {
		if !clique.IsZero() && !yield(named{clique: clique}) {
			return
		}
		for _, d := range values {
			if !yield(named{value: d}) {
				return
			}
		}
	}
}
