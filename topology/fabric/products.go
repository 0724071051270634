package fabric

import (
	"strings"
	"unicode"
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

// Bounds are how many GPUs an NVLink domain has at most, by the word of the product that names the chip. They are
// what a site says, and go before what Quoin knows. Nil has none.
type Bounds map[string]int

// Of returns the word of a product that names the chip, such as GB200 of NVIDIA GB200 or nvidia-gb200, and how many
// GPUs an NVLink domain of the product has at most: 0 if NVLink ends in the machine. known is false if nothing is
// known of the product.
func (b Bounds) Of(product string) (chip string, gpus int, known bool) {
	for word := range strings.FieldsFuncSeq(strings.ToUpper(product), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		for _, bounds := range []map[string]int{b, largestDomains} {
			if gpus, known = bounds[word]; known {
				return word, gpus, true
			}
		}
	}
	return "", 0, false
}

// EndInside reports whether NVLink of a product is known to end in the machine.
func (b Bounds) EndInside(product string) bool {
	_, gpus, known := b.Of(product)
	return known && gpus == inMachine
}
