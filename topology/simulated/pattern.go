package simulated

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// pattern is a name with numbers in it, such as gb200-{node:03}.
type pattern []piece

// piece is literal text, or one number.
type piece struct {
	text  string
	count func(numbers) int // nil for text
	per   int
	width int
}

// numbers are what a pattern can count, from 1.
type numbers struct {
	rack int // in its group
	tray int // in its rack
	node int // in its group
}

var counters = map[string]func(numbers) int{
	"rack": func(n numbers) int { return n.rack },
	"tray": func(n numbers) int { return n.tray },
	"node": func(n numbers) int { return n.node },
}

var number = regexp.MustCompile(`\{([a-z]+)(?:/([1-9][0-9]{0,5}))?(?::0?([1-9]))?\}`)

// parsePattern reads a pattern: {rack}, {tray} and {node} are numbers,
// {rack/4} is the same for four racks, {node:03} has at least three digits.
func parsePattern(s string) (pattern, error) {
	var p pattern
	text := func(t string) error {
		if strings.ContainsAny(t, "{}") {
			return fmt.Errorf("pattern %q: want {rack}, {tray} or {node}, as {rack/4} or {node:03} too", s)
		}
		if t != "" {
			p = append(p, piece{text: t})
		}
		return nil
	}
	rest := 0
	for _, m := range number.FindAllStringSubmatchIndex(s, -1) {
		count, ok := counters[s[m[2]:m[3]]]
		if !ok {
			return nil, fmt.Errorf("pattern %q: %s: want {rack}, {tray} or {node}", s, s[m[0]:m[1]])
		}
		if err := text(s[rest:m[0]]); err != nil {
			return nil, err
		}
		p = append(p, piece{count: count, per: digits(s, m[4], m[5]), width: digits(s, m[6], m[7])})
		rest = m[1]
	}
	return p, text(s[rest:])
}

// digits reads s[from:to], 1 where the expression did not match it.
func digits(s string, from, to int) int {
	if from < 0 {
		return 1
	}
	n, err := strconv.Atoi(s[from:to])
	if err != nil {
		return 1 // not reached: the expression takes at most six digits
	}
	return n
}

// expand writes the name of the machine or switch with these numbers.
func (p pattern) expand(at numbers) string {
	var b []byte
	for _, x := range p {
		if x.count == nil {
			b = append(b, x.text...)
			continue
		}
		n := strconv.Itoa((x.count(at)-1)/x.per + 1)
		for range x.width - len(n) {
			b = append(b, '0')
		}
		b = append(b, n...)
	}
	return string(b)
}
