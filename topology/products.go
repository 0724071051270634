package topology

import (
	"slices"
	"strings"
)

// inMachine marks products whose NVLink, if they have any, joins only GPUs of one machine.
const inMachine = 0

// largestDomains is how many GPUs an NVLink domain has at most, by the word of the product that names
// the chip. An NVL72 rack joins 72 GPUs, NVLink 4 joins 256 Grace Hoppers. Products that are not in the
// table are not judged: they may have NVLink between machines.
var largestDomains = map[string]int{
	"GB300": 72, "GB200": 72, "GH200": 256,
	"B300": inMachine, "B200": inMachine, "B100": inMachine,
	"H200": inMachine, "H100": inMachine, "H800": inMachine, "H20": inMachine,
	"A100": inMachine, "A800": inMachine, "A40": inMachine, "A30": inMachine, "A16": inMachine, "A10": inMachine, "A10G": inMachine, "A2": inMachine,
	"L40S": inMachine, "L40": inMachine, "L20": inMachine, "L4": inMachine, "RTX": inMachine,
	"V100": inMachine, "P100": inMachine, "T4": inMachine,
}

// standsAlone has products whose machines could be joined by NVLink and mostly are not.
var standsAlone = map[string]bool{"GH200": true}

// longestChip is the length of the longest word of largestDomains.
const longestChip = 5

// LargestDomain returns the word of a product that names the chip, such as GB200 of NVIDIA GB200 or
// nvidia-gb200, and how many GPUs an NVLink domain of the product has at most: 0 if NVLink ends in the
// machine. known is false if nothing is known of the product. LargestDomain makes no garbage, because
// it is called for each node.
func LargestDomain(product string) (chip string, gpus int, known bool) {
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
			if gpus, known = largestDomains[string(word[:n])]; known {
				return strings.ToUpper(product[start:i]), gpus, true
			}
		}
		start = i + 1
	}
	return "", 0, false
}

// Bounds are how many GPUs an NVLink domain has at most, by the word of the product that names the chip. They are
// what a site says, and go before what Quoin knows.
type Bounds map[string]int

// Of is LargestDomain with the site's words.
func (b Bounds) Of(product string) (chip string, gpus int, known bool) {
	chip, gpus, known = LargestDomain(product)
	if bound, said := b[chip]; said {
		gpus = bound
	}
	return chip, gpus, known
}

// SpansMachines reports whether NVLink of the node's product may join it with other nodes. bounds may be nil.
func (n *Node) SpansMachines(bounds Bounds) bool {
	if len(n.GPUs) == 0 {
		return false
	}
	_, bound, known := bounds.Of(n.GPUs[0].Product)
	return !known || bound > inMachine
}

// NamesNone reports whether labels say that there is no NVLink domain. They do not if the clique's label
// can't be read, or if the product is one that has NVLink between machines: then its driver may not be up.
func (l *Labels) NamesNone() bool {
	_, gpus, _ := LargestDomain(l.Product)
	has := func(reason string) bool {
		return slices.ContainsFunc(l.Problems, func(p Finding) bool { return p.Reason == reason })
	}
	return gpus == 0 && !has(ReasonCliqueMalformed) && (has(ReasonCliqueWithoutDomain) || has(ReasonDomainWithoutDomain))
}

// EndsInside reports whether it is known that NVLink joins no GPU of the node with another node's: the
// node's GPUs or labels say so, or they are of a product of which that is known. bounds may be nil.
func (f *Facts) EndsInside(bounds Bounds) bool {
	_, gpus, known := bounds.Of(f.Product())
	return f.Report != nil && f.Report.Joined().None || f.Report == nil && f.Labels.NamesNone() || known && gpus == inMachine
}

// Product returns the product of the node's first GPU, by report, else by labels, else by slices, as
// the writer spells it. It is empty if nothing names it.
func (f *Facts) Product() string {
	switch {
	case f.Report != nil && len(f.Report.GPUs) > 0 && f.Report.GPUs[0].Product != "":
		return f.Report.GPUs[0].Product
	case f.Labels.Product == "" && f.Slices != nil && len(f.Slices.GPUs) > 0:
		return f.Slices.GPUs[0].Product
	}
	return f.Labels.Product
}
