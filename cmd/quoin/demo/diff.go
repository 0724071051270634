package demo

import (
	"fmt"
	"strings"
)

// change is one line that a file has lost or won.
type change struct {
	added bool
	fileLine
}

// fileLine is a line without its indentation, and the line that it belongs to by
// its indentation. Two are the same only where both are.
type fileLine struct{ text, under string }

// maxCompared bounds the lines before times the lines after that are compared.
const maxCompared = 1 << 24

// changesOf compares two files line by line: the fewest lines that turn one into
// the other, in the order of the file.
func changesOf(before, after string) []change {
	was, is := linesOf(before), linesOf(after)
	for len(was) > 0 && len(is) > 0 && was[0] == is[0] {
		was, is = was[1:], is[1:]
	}
	for len(was) > 0 && len(is) > 0 && was[len(was)-1] == is[len(is)-1] {
		was, is = was[:len(was)-1], is[:len(is)-1]
	}
	if len(was)*len(is) > maxCompared {
		return []change{{true, fileLine{fmt.Sprintf("%d lines in place of %d", len(is), len(was)), ""}}}
	}
	same := commonLines(was, is)
	var out []change
	for i, k := 0, 0; i < len(was) || k < len(is); {
		switch {
		case i < len(was) && k < len(is) && was[i] == is[k]:
			i, k = i+1, k+1
		case i < len(was) && (k == len(is) || same[i+1][k] >= same[i][k+1]):
			out = append(out, change{false, was[i]})
			i++
		default:
			out = append(out, change{true, is[k]})
			k++
		}
	}
	return out
}

// linesOf splits a file into its lines.
func linesOf(text string) []fileLine {
	type level struct {
		indent int
		text   string
	}
	var above []level // the lines that the next one may belong to
	var out []fileLine
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimLeft(line, " ")
		indent := len(line) - len(trimmed)
		for len(above) > 0 && above[len(above)-1].indent >= indent {
			above = above[:len(above)-1]
		}
		under := ""
		if len(above) > 0 {
			under = above[len(above)-1].text
		}
		out = append(out, fileLine{trimmed, under})
		above = append(above, level{indent, strings.TrimPrefix(trimmed, "- ")})
	}
	return out
}

// commonLines gives for every pair of ends of a and b how many lines they have
// in common, in order.
func commonLines(a, b []fileLine) [][]int {
	same := make([][]int, len(a)+1)
	for i := range same {
		same[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for k := len(b) - 1; k >= 0; k-- {
			if same[i][k] = max(same[i+1][k], same[i][k+1]); a[i] == b[k] {
				same[i][k] = same[i+1][k+1] + 1
			}
		}
	}
	return same
}
