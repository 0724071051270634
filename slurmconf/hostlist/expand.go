// Package hostlist reads and writes Slurm's host lists, such as n[001-018,020].
// Expand gives the names in Slurm's order, Compress gives the list that Slurm
// would write, and CheckName says whether a text names exactly one node.
//
// The package is pure. Both directions are compared with `scontrol show
// hostnames` and `scontrol show hostlistsorted`. Host list functions such as
// block{b1} are not resolved: their text is returned as a name.
package hostlist

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxRangeHosts is how many hosts Slurm takes in one range of a bracket.
	maxRangeHosts = 64 * 1024
	// MaxHosts is how many names a list may have here, and all lists of a topology file together.
	MaxHosts = 1 << 20
	// MaxDigits is how many digits at the end of a name are read as a number.
	MaxDigits = 18
)

// ErrNotPlain is about a list that Slurm may take, and reads otherwise than it looks:
// junk in brackets such as n[01z-3] or n[1-], a lone bracket, numbers of more than 18
// digits, and host list functions such as block{b1}.
var ErrNotPlain = errors.New("no plain host list: want such as n[001-018,020]")

// Expand returns the names of a plain Slurm host list such as
// "n[001-018],rack[1-2]n[01-16]-ib", in Slurm's order. The last bracket of a
// name changes fastest, the brackets before it change from the left. A name that
// is listed twice is returned twice. An empty list has no names. Another list is
// ErrNotPlain. A list that Slurm refuses, or that has more than 1,048,576 names, is
// another error. Errors quote the list.
func Expand(s string) ([]string, error) {
	count, size := min(1+strings.Count(s, ","), MaxHosts), len(s)
	if strings.IndexByte(s, '[') >= 0 {
		count, size = 0, 0 // brackets hold more names than there are commas
		if err := Walk(s, func(name []byte) { count, size = count+1, size+len(name) }); err != nil {
			return nil, err
		}
	}
	names := make([]string, 0, count)
	var all strings.Builder // the names are parts of one piece of memory
	all.Grow(size)
	err := Walk(s, func(name []byte) {
		all.Write(name)
		names = append(names, all.String()[all.Len()-len(name):])
	})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return names, nil
}

// Walk calls yield with every name of the list. The bytes of a name are valid
// during the call only.
func Walk(s string, yield func(name []byte)) error {
	w := walker{yield: yield}
	if strings.ContainsAny(s, "{}") {
		return fmt.Errorf("host list %q: %w", Shorten(s), ErrNotPlain)
	}
	for rest := s; ; {
		var token string
		if token, rest = nextToken(rest); token == "" {
			return nil
		}
		if err := w.token(token); err != nil {
			return fmt.Errorf("host list %q: %w", Shorten(s), err)
		}
	}
}

// nextToken cuts the first name or bracketed name off s. A separator in brackets does
// not end it.
func nextToken(s string) (token, rest string) {
	start := 0
	for start < len(s) && isSeparator(s[start]) {
		start++
	}
	end, inBracket := start, false
	for end < len(s) && (inBracket || !isSeparator(s[end])) {
		inBracket = s[end] == '[' || inBracket && s[end] != ']'
		end++
	}
	return s[start:end], s[end:]
}

// isSeparator reports whether c separates names outside of brackets.
func isSeparator(c byte) bool { return c == ',' || c == ' ' || c == '\t' || c == '\n' }

// walker walks one list.
type walker struct {
	yield  func(name []byte)
	buf    []byte
	parts  []part
	ranges []numberRange // of all parts
	count  int
}

// part is a bracket of a token and the text before it.
type part struct {
	text   string
	ranges []numberRange
}

// numberRange is one range of a bracket, padded with zeros to width digits.
type numberRange struct {
	low, high uint64
	width     int
}

// token walks one name or bracketed name.
func (w *walker) token(token string) (err error) {
	brackets := strings.Count(token, "[")
	w.parts, w.ranges = w.parts[:0], w.ranges[:0]
	for {
		text, inner, more := strings.Cut(token, "[")
		if strings.IndexByte(text, ']') >= 0 {
			return ErrNotPlain
		}
		if !more {
			break
		}
		inner, rest, closed := strings.Cut(inner, "]")
		if !closed {
			return fmt.Errorf("bracket without an end in %q: close it with ]", token)
		}
		from := len(w.ranges)
		w.ranges, err = appendRanges(w.ranges, inner)
		if err != nil && brackets > 1 { // Slurm refuses the list, or leaves the name out
			return ErrNotPlain
		} else if err != nil {
			return err
		}
		w.parts, token = append(w.parts, part{text, w.ranges[from:]}), rest
	}
	if brackets == 0 {
		w.buf = append(w.buf[:0], token...)
		return w.emit()
	}
	return w.outer(len(w.parts)-2, "", token)
}

// outer walks the brackets before the last, the k-th and those to its left. Slurm
// changes the bracket next to the last slowest. between is the text from the k-th to
// the last, and suffix what follows that.
func (w *walker) outer(k int, between, suffix string) error {
	if k < 0 {
		return w.last(w.parts[0].text+between, suffix)
	}
	for _, r := range w.parts[k].ranges {
		for n := r.low; n <= r.high; n++ {
			number := appendPadded(nil, n, r.width)
			if err := w.outer(k-1, string(number)+w.parts[k+1].text+between, suffix); err != nil {
				return err
			}
		}
	}
	return nil
}

// last walks the last bracket of a name. It counts up the digits that are there,
// which is faster than to format each number.
func (w *walker) last(prefix, suffix string) error {
	w.buf = append(w.buf[:0], prefix...)
	for _, r := range w.parts[len(w.parts)-1].ranges {
		var digits []byte
		for n := r.low; n <= r.high; n++ {
			if !countUp(digits) {
				w.buf = appendPadded(w.buf[:len(prefix)], n, r.width)
				end := len(w.buf)
				w.buf = append(w.buf, suffix...)
				digits = w.buf[len(prefix):end]
			}
			if err := w.emit(); err != nil {
				return err
			}
		}
	}
	return nil
}

// countUp adds one to a number. It reports false if the sum needs another digit.
func countUp(digits []byte) bool {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] < '9' {
			digits[i]++
			return true
		}
		digits[i] = '0'
	}
	return false
}

// emit yields the name in buf.
func (w *walker) emit() error {
	if w.count++; w.count > MaxHosts {
		return fmt.Errorf("more than %d names: split it into several lists", MaxHosts)
	}
	w.yield(w.buf)
	return nil
}

// appendRanges appends the ranges of a bracket without its [ and ].
func appendRanges(ranges []numberRange, s string) ([]numberRange, error) {
	before, count := len(ranges), uint64(0)
	for text := range strings.SplitSeq(s, ",") {
		r, err := parseRange(text)
		if err != nil {
			return ranges, err
		}
		ranges, count = append(ranges, r), count+r.high-r.low+1
	}
	if len(ranges) > before+1 && count > maxRangeHosts {
		return ranges, ErrNotPlain
	}
	return ranges, nil
}

// parseRange parses "7" or "007-012".
func parseRange(s string) (numberRange, error) {
	low, high, isRange := strings.Cut(s, "-")
	if !isRange {
		high = low
	}
	lo, okLow := parseDigits(low)
	hi, okHigh := parseDigits(high)
	switch {
	case !okLow || !okHigh || high[0] == '0' && len(high) != len(low):
		return numberRange{}, ErrNotPlain
	case hi < lo:
		return numberRange{}, fmt.Errorf("range %q runs backwards: write the smaller number first", s)
	case hi-lo >= maxRangeHosts:
		return numberRange{}, fmt.Errorf("range %q has more than %d hosts: split it", s, maxRangeHosts)
	}
	return numberRange{lo, hi, len(low)}, nil
}

// parseDigits reads a number of at most MaxDigits digits and nothing else.
func parseDigits(s string) (uint64, bool) {
	if s == "" || len(s) > MaxDigits {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	return n, true
}

// appendPadded appends n with leading zeros up to width digits.
func appendPadded(b []byte, n uint64, width int) []byte {
	var buf [MaxDigits + 1]byte
	digits := strconv.AppendUint(buf[:0], n, 10)
	for range width - len(digits) {
		b = append(b, '0')
	}
	return append(b, digits...)
}

// Shorten cuts a list that a message quotes to 120 bytes.
func Shorten(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
