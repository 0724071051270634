package fabric

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

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

// claim is what nodes have in common whose labels name one domain.
type claim struct {
	size
	// confirmed: NVML says that a node has a domain.
	confirmed bool
}

// impossible says why labels can't name an NVLink domain. It is empty if they can. The site knows how large a domain
// is whose label it has configured.
func (c *claim) impossible(configured bool) string {
	switch {
	case c.confirmed || c.unbound || c.nodes < 2 || c.bound > inMachine && configured:
	case c.bound == inMachine:
		return fmt.Sprintf("is on %d nodes, and NVLink of %s ends in the machine: it is no NVLink domain", c.nodes, c.chip)
	case c.tooLarge():
		return fmt.Sprintf("is on %d nodes with %d GPUs, and NVLink joins %d GPUs of %s at most: it is no NVLink domain", c.nodes, c.gpus, c.bound, c.chip)
	}
	return ""
}

// checkLabels takes labels off the facts that can't name an NVLink domain: more GPUs have the same value than NVLink
// of the product joins. Each such node gets a problem.
func (t *site) checkLabels(lists [][]topology.Facts) {
	claims := map[named]*claim{}
	for f := range allOf(lists) {
		for d := range domainsOf(&f.Labels) {
			c := claims[d]
			if c == nil {
				c = &claim{}
				claims[d] = c
			}
			c.add(t.kindOf(kindKey{f.Product(), f.GPUCount()}))
			if f.Report != nil && len(f.Report.GPUs) > 0 {
				_, joined := f.Report.GPUs[0].Fabric.Clique()
				c.confirmed = c.confirmed || joined
			}
		}
	}
	configured := func(d named) bool { return slices.Contains(t.DomainLabels, d.value.Key) }
	maps.DeleteFunc(claims, func(d named, c *claim) bool { return c.impossible(configured(d)) == "" })
	for f := range allOf(lists) {
		l := &f.Labels
		for d := range domainsOf(l) {
			c := claims[d]
			if c == nil {
				continue
			}
			l.Problems = append(slices.Clone(l.Problems), topology.Finding{Reason: topology.ReasonDomainImplausible, Message: "label " + d.String() + " " + c.impossible(configured(d))})
			if d.value.Key == "" {
				l.Clique = topology.Clique{}
			}
			l.Domains = slices.DeleteFunc(slices.Clone(l.Domains), func(of topology.Domain) bool { return of == d.value })
		}
	}
}

// allOf yields the facts of each node of all lists. Further names of a node in Slurm are no further node.
func allOf(lists [][]topology.Facts) iter.Seq[*topology.Facts] {
	return func(yield func(*topology.Facts) bool) {
		seen := map[string]bool{}
		for _, facts := range lists {
			for i := range facts {
				f := &facts[i]
				if seen[f.Name] {
					continue
				}
				if f.Shared {
					seen[f.Name] = true
				}
				if !yield(f) {
					return
				}
			}
		}
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
