package demo

import (
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// change is a line that a file lost or got, without its indentation. under is the line
// above that it belongs to by its indentation.
type change struct {
	added       bool
	text, under string
}

// changesOf compares two files line by line.
func changesOf(before, after string) []change {
	var out []change
	above, aboveIndent := "", 0 // the last line with children, which both files have
	header := true
	for line := range strings.Lines(string(diff.Diff("before", []byte(before), "after", []byte(after)))) {
		sign, text := line[0], strings.TrimSuffix(line[1:], "\n")
		if sign == '@' {
			header, above = false, ""
			continue
		}
		trimmed := strings.TrimLeft(text, " ")
		indent := len(text) - len(trimmed)
		switch {
		case header:
		case sign == ' ':
			above, aboveIndent = strings.TrimPrefix(trimmed, "- "), indent
		case sign == '+' || sign == '-':
			c := change{added: sign == '+', text: trimmed}
			if indent > aboveIndent {
				c.under = above
			}
			out = append(out, c)
		}
	}
	return out
}
