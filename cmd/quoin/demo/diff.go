package demo

import (
	"fmt"
	"strings"
)

// change is one line that a file lost or got.
type change struct {
	added bool
	fileLine
}

// fileLine is a line without its indentation, and the line above that it belongs to by
// its indentation.
type fileLine struct{ text, under string }

// maxCompared bounds the number of old lines times the number of new lines.
const maxCompared = 1 << 24

// changesOf compares two files line by line. It returns the fewest changes that turn one
// into the other, in the order of the file.
func changesOf(before, after string) []change {
	old, now := linesOf(before), linesOf(after)
	for len(old) > 0 && len(now) > 0 && old[0] == now[0] {
		old, now = old[1:], now[1:]
	}
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	if len(old)*len(now) > maxCompared {
		return []change{{true, fileLine{fmt.Sprintf("%d lines in place of %d", len(now), len(old)), ""}}}
	}
	same := commonLines(old, now)
	var out []change
	for i, k := 0, 0; i < len(old) || k < len(now); {
		switch {
		case i < len(old) && k < len(now) && old[i] == now[k]:
			i, k = i+1, k+1
		case i < len(old) && (k == len(now) || same[i+1][k] >= same[i][k+1]):
			out = append(out, change{false, old[i]})
			i++
		default:
			out = append(out, change{true, now[k]})
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
	var above []level // lines that the next one may belong to
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

// commonLines returns, for every pair of ends of a and b, how many lines they have in
// common, in order.
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
