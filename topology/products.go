package topology

import (
	"slices"
	"strings"
)

// insideProducts are words in the names of GPUs whose NVLink, if they have any, joins only GPUs of
// one machine. A name is split at spaces and dashes, so GB200 is not B200. A product that is not
// here, such as GB200, GH200 or one that came later, may have NVLink between machines.
var insideProducts = []string{
	"P100", "V100", "T4", "A2", "A10", "A16", "A30", "A40", "A100", "A800", "L4", "L20", "L40", "L40S",
	"H20", "H100", "H200", "H800", "B200", "B300", "RTX",
}

// EndsInside reports whether NVLink of a product, by NVML's name or a label's, is known to end in the
// machine. False says nothing.
func EndsInside(product string) bool {
	for word := range strings.FieldsFuncSeq(product, func(r rune) bool { return r == ' ' || r == '-' }) {
		if slices.Contains(insideProducts, word) {
			return true
		}
	}
	return false
}

// EndsInside reports whether it is known that NVLink joins no GPU of the node with another node's: the
// node's GPUs say so, or they are of a product of which that is known.
func (f *Facts) EndsInside() bool {
	return f.Report != nil && f.Report.Joined().None || EndsInside(f.Product())
}

// Product returns the product of the node's first GPU, by report, else by labels. It is empty if
// nothing names it.
func (f *Facts) Product() string {
	if f.Report != nil && len(f.Report.GPUs) > 0 {
		return f.Report.GPUs[0].Product
	}
	return f.Labels.Product
}
