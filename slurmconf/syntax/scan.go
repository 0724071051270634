package syntax

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// Line is one line of a Slurm configuration file: the pair that it begins with
// and the pairs that follow.
type Line struct {
	Number int
	// Include is the file of a line `Include FILE`, which has no pairs.
	Include string
	Pair
	Attrs []Pair
}

// Pair is Key=Value as written.
type Pair struct {
	Key, Value string
}

// Scan reads Slurm's configuration syntax: comments, continued lines, escapes and
// quoted values. A line that has anything but Key=Value pairs is an error.
func Scan(name string, data []byte) ([]Line, *ParseError) {
	text := string(data)
	lines := make([]Line, 0, strings.Count(text, "\n")+1)
	pairs := make([]Pair, 0, strings.Count(text, "="))
	for number := 1; text != ""; {
		var line string
		at := number
		line, text, number = nextConfLine(text, number)
		rest := strings.TrimLeft(line, " \t\r\n\v\f")
		if rest == "" {
			continue
		}
		if file, ok := cutInclude(line); ok {
			lines = append(lines, Line{Number: at, Include: file})
			continue
		}
		from := len(pairs)
		for rest != "" {
			key, value, tail, ok := cutPair(rest)
			if !ok {
				return nil, &ParseError{File: name, Line: at, Message: fmt.Sprintf("%q is no Key=Value: Slurm refuses the whole file; give each key a value, and put quotes around a value with spaces", hostlist.Shorten(strings.TrimSpace(rest)))}
			}
			pairs = append(pairs, Pair{Key: key, Value: value})
			rest = strings.TrimLeft(tail, " \t\r\n\v\f")
		}
		lines = append(lines, Line{Number: at, Pair: pairs[from], Attrs: pairs[from+1 : len(pairs) : len(pairs)]})
	}
	return lines, nil
}

// nextConfLine cuts one line off text, with the lines that continue it.
func nextConfLine(text string, number int) (line, rest string, next int) {
	joined := ""
	for {
		line, rest, _ = strings.Cut(text, "\n")
		number++
		if i := commentStart(line); i >= 0 {
			line = line[:i]
		}
		trimmed := strings.TrimRight(line, " \t\r\v\f")
		slashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
		if slashes%2 == 0 {
			line = joined + line
			break
		}
		joined += trimmed[:len(trimmed)-1]
		if text = rest; text == "" {
			line = joined
			break
		}
	}
	if strings.IndexByte(line, '\\') >= 0 {
		line = stripEscapes(line)
	}
	return line, rest, number
}

// commentStart returns the index of the first # that an odd number of backslashes
// does not escape, or -1.
func commentStart(line string) int {
	slashes := 0
	for i := range len(line) {
		switch line[i] {
		case '#':
			if slashes%2 == 0 {
				return i
			}
			slashes = 0
		case '\\':
			slashes++
		default:
			slashes = 0
		}
	}
	return -1
}

func stripEscapes(line string) string {
	out := make([]byte, 0, len(line))
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			if i++; i == len(line) {
				break
			}
		}
		out = append(out, line[i])
	}
	return string(out)
}

func cutInclude(line string) (string, bool) {
	const word = "include"
	if len(line) <= len(word) || !strings.EqualFold(line[:len(word)], word) || !isSpace(line[len(word)]) {
		return "", false
	}
	file, _, _ := strings.Cut(strings.TrimSpace(line[len(word):]), " ")
	return file, file != "" // without a file Slurm reads beyond the line: no verdict to follow
}

// cutPair reads Key=Value at the beginning of s.
func cutPair(s string) (key, value, rest string, ok bool) {
	i := 0
	for i < len(s) && isKeyByte(s[i]) {
		i++
	}
	key = s[:i]
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	if i < len(s) && strings.IndexByte("-*+/", s[i]) >= 0 {
		i++
	}
	if key == "" || i >= len(s) || s[i] != '=' {
		return "", "", s, false
	}
	for i++; i < len(s) && isSpace(s[i]); {
		i++
	}
	if i < len(s) && s[i] == '"' {
		if n := strings.IndexByte(s[i+1:], '"'); n >= 0 {
			if end := i + n + 2; end == len(s) || isSpace(s[end]) {
				return key, s[i+1 : end-1], s[end:], true
			}
		}
	}
	end := i
	for end < len(s) && !isSpace(s[end]) {
		end++
	}
	return key, s[i:end], s[end:], end > i
}

func isKeyByte(c byte) bool {
	return c-'0' <= 9 || c|0x20-'a' <= 25 || c == '_' || c == '.'
}

func isSpace(c byte) bool { return c == ' ' || c-'\t' <= '\r'-'\t' }
