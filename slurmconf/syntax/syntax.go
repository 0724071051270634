// Package syntax is what Slurm's .conf files have in common: lines of Key=Value pairs with
// comments, escapes and quotes, lines that go on, and files that include others. What the
// keys of a file mean is known to the package of that file.
//
// The package is pure: text in, text out. It is small, because quoin-hook is made of it too.
package syntax

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseError is text that Slurm's parsers, or Quoin's, do not take.
type ParseError struct {
	File string
	Line int
	// Key is the key or the value's place, empty when the whole line is meant.
	Key string
	// Message says what is wrong and what is allowed.
	Message string
	// NotJudged says that Slurm may take the text, and Quoin does not read it.
	NotJudged bool
}

// Error returns "file:line: key: message".
func (e *ParseError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Key, e.Message)
}

// CommentLines writes header as comment lines.
func CommentLines(b *strings.Builder, header string) {
	if header == "" {
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(header, "\n"), "\n") {
		b.WriteString(strings.TrimRight("# "+strings.TrimRight(line, "\r\\ \t"), " "))
		b.WriteByte('\n')
	}
}

// JoinNumbers writes numbers with commas between them.
func JoinNumbers(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}
