package nodelabels

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

const reasonImpossible = "DomainLabelImpossible"

// largest is how many GPUs an NVLink domain has at most, by the word of the product that names the
// chip. NVLink 5 joins 576 GPUs, NVLink 4 joins 256 Grace Hoppers. Products that are not in the
// table are not judged.
var largest = map[string]int{
	"GB300": 576, "GB200": 576, "GH200": 256,
	"B300": inMachine, "B200": inMachine, "B100": inMachine,
	"H200": inMachine, "H100": inMachine, "H800": inMachine, "H20": inMachine,
	"A100": inMachine, "A800": inMachine, "A40": inMachine, "A30": inMachine, "A10": inMachine, "A10G": inMachine,
	"L40S": inMachine, "L40": inMachine, "L4": inMachine, "V100": inMachine, "T4": inMachine,
}

// inMachine marks products whose NVLink ends in the machine.
const inMachine = 0

// longestChip is the length of the longest word of largest.
const longestChip = 5

// chip returns the word of a product that names the chip, such as GB200 of NVIDIA GB200 or
// nvidia gb200. most is how many GPUs its NVLink domain has at most. It makes no garbage, because
// it reads each node's labels.
func chip(product string) (name string, most int, known bool) {
	var word [longestChip]byte
	start := 0
	for i := 0; i <= len(product); i++ {
		if i < len(product) {
			c := product[i]
			if c >= 'a' && c <= 'z' {
				c -= 'a' - 'A'
			}
			if c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
				if at := i - start; at < longestChip {
					word[at] = c
				}
				continue
			}
		}
		if n := i - start; n > 0 && n <= longestChip {
			if most, known = largest[string(word[:n])]; known {
				return strings.ToUpper(product[start:i]), most, true
			}
		}
		start = i + 1
	}
	return "", 0, false
}

// spansMachines reports whether the product's NVLink joins GPUs of several machines.
func spansMachines(product string) bool {
	_, most, known := chip(product)
	return known && most != inMachine
}

// endsInMachine reports whether the product's NVLink is known to end in the machine.
func endsInMachine(product string) bool {
	_, most, known := chip(product)
	return known && most == inMachine
}

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
	most        int
	// unjudged: a node's product is not known, or NVML confirms that the node has a domain.
	unjudged bool
}

// impossible says why labels of these nodes can't name an NVLink domain. It is empty if they can.
func (m *members) impossible() string {
	switch {
	case m.unjudged || m.nodes < 2:
	case m.most == inMachine:
		return fmt.Sprintf("is on %d nodes, and NVLink of %s ends in the machine: it is no NVLink domain", m.nodes, m.chip)
	case m.gpus > m.most:
		return fmt.Sprintf("is on %d nodes with %d GPUs, and NVLink joins %d GPUs of %s at most: it is no NVLink domain", m.nodes, m.gpus, m.most, m.chip)
	}
	return ""
}

// Plausible takes labels off the facts that can't name an NVLink domain: more GPUs have the same
// value than the product's NVLink can join. Each such node gets a problem. The facts are not
// changed: changed ones are copies.
func Plausible(facts []topology.Facts) []topology.Facts {
	found := map[named]*members{}
	for i := range facts {
		for d := range domainsOf(&facts[i].Labels) {
			m := found[d]
			if m == nil {
				m = &members{}
				found[d] = m
			}
			m.add(&facts[i])
		}
	}
	why := map[named]string{}
	for d, m := range found {
		if text := m.impossible(); text != "" {
			why[d] = text
		}
	}
	if len(why) == 0 {
		return facts
	}
	out := slices.Clone(facts)
	for i := range out {
		l := &out[i].Labels
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
	return out
}

func (m *members) add(f *topology.Facts) {
	product := f.Labels.Product
	if f.Report != nil && len(f.Report.GPUs) > 0 {
		product = f.Report.GPUs[0].Product
		_, confirmed := f.Report.GPUs[0].Fabric.Clique()
		m.unjudged = m.unjudged || confirmed
	}
	name, most, known := chip(product)
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
