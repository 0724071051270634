package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// leftOut lists by reason the nodes in no block. Without any block it lists the
// nodes below no switch.
func (d *drawer) leftOut(plan *topology.Plan) {
	byReason := map[string][]string{}
	var reasons []string
	for i := range plan.Nodes {
		pl := &plan.Nodes[i]
		if at := d.places[pl.SlurmName]; at.Block != "" || len(d.racks) == 0 && at.Leaf != "" {
			continue
		}
		if byReason[pl.Reason] == nil {
			reasons = append(reasons, pl.Reason)
		}
		byReason[pl.Reason] = append(byReason[pl.Reason], pl.SlurmName)
	}
	if len(reasons) == 0 {
		return
	}
	slices.Sort(reasons)
	what := "In no block"
	switch {
	case len(d.racks) > 0:
	case len(plan.Switches()) > 0:
		what = "Below no switch"
	default:
		what = "In no block and below no switch"
	}
	d.printf("%s\n", d.paint(bold, what))
	width := 0
	for _, r := range reasons {
		width = max(width, len(r)+len(whyLeftOut(r)))
	}
	for _, r := range reasons {
		head := fmt.Sprintf("  %5d  %-*s", len(byReason[r]), width+2, r+": "+whyLeftOut(r))
		names := shortList(byReason[r], d.o.Width-utf8.RuneCountInString(head)-2)
		d.printf("%s  %s\n", head, d.paint(dim, names))
	}
	d.printf("\n")
}

// leftOutWords are the reasons in words.
var leftOutWords = map[string]string{
	placement.ReasonNoGPUs:           "no GPU",
	placement.ReasonNoFacts:          "no report and no label names their NVLink domain",
	placement.ReasonNoDomain:         "NVLink ends in the machine",
	topology.ReasonFabricInProgress:  "fabric registration in progress",
	topology.ReasonFabricNotReady:    "fabric not ready",
	topology.ReasonFabricMissing:     "GPUs without the fabric that they should have",
	topology.ReasonDomainImplausible: "more GPUs in one NVLink domain than there can be",
	topology.ReasonTwoCliques:        "GPUs in two NVLink domains",
	placement.ReasonSmallDomain:      "too few nodes for a block",
	placement.ReasonTiersMissing:     "no report and no label names their leaf switch",
	placement.ReasonDomainConflict:   "labels name several NVLink domains",
	placement.ReasonGone:             "the node is gone",
	topology.ReasonNoBlock:           "the file has them in no block",
}

// whyLeftOut returns a reason in words.
func whyLeftOut(reason string) string { return cmp.Or(leftOutWords[reason], "no place") }

func (d *drawer) problems(plan *topology.Plan) {
	if len(plan.Problems) == 0 {
		return
	}
	d.printf("%s\n", d.paint(bold, countOf(len(plan.Problems), "problem")))
	for _, line := range d.o.Problems {
		text := strings.TrimLeft(line, " ")
		indent := 2 + len(line) - len(text)
		for _, part := range wrap(printable(text), d.o.Width-indent) {
			d.printf("%*s%s\n", indent, "", d.paint(looks[degraded].color, part))
		}
	}
	d.printf("\n")
}

// wrap breaks text at spaces into lines of at most width columns. A longer word has a line of its own.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// printable turns control characters into spaces, because they could change a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// cut ends text that is longer than width columns with an ellipsis.
func cut(text string, width int) string {
	text = printable(text)
	if r := []rune(text); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return text
}
