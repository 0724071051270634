package hostlist

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	// maxRangeHosts is how many hosts Slurm takes in one range of a bracket.
	maxRangeHosts = 64 * 1024
	// maxHosts is how many names a list may have here.
	maxHosts = 1 << 20
	// MaxDigits is how many digits at the end of a name are read as a number.
	MaxDigits = 18
)

// numberRange is one range of a bracket: count numbers from lo on, padded with
// zeros to width digits.
type numberRange struct {
	lo, count uint64
	width     int
}

// Expand returns the names of a Slurm host list such as
// "n[001-018],rack[1-2]n[01-16]-ib", in Slurm's order. The last bracket of a
// name changes fastest, the brackets before it change from the left. A name that
// is listed twice is returned twice. An empty list has no names. Junk such as
// n[01z-3] is read as Slurm reads it. A list that Slurm refuses or crashes on,
// or that has more than 1,048,576 names, is an error that quotes the list.
func Expand(s string) ([]string, error) {
	count, size := min(1+strings.Count(s, ","), maxHosts), len(s)
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
	_, err := new(Walker).Walk(s, yield)
	return err
}

// Walk calls yield with every name of the list. odd says what Slurm reads
// otherwise than it looks, and is empty for a plain list.
func (w *Walker) Walk(s string, yield func(name []byte)) (odd string, err error) {
	w.yield, w.odd, w.count = yield, "", 0
	for rest := s; ; {
		var token string
		token, rest = nextToken(rest)
		if token == "" {
			return w.odd, nil
		}
		if err := w.token(token); err != nil {
			return w.odd, fmt.Errorf("host list %q: %w", Shorten(s), err)
		}
	}
}

// isSeparator reports whether c separates names outside of brackets.
func isSeparator(c byte) bool { return c == ',' || c == ' ' || c == '\t' || c == '\n' }

// nextToken cuts the first name or bracketed name off s. A separator within
// a pair of brackets does not end it, unless a ] without its [ came before.
func nextToken(s string) (token, rest string) {
	start := 0
	for start < len(s) && isSeparator(s[start]) {
		start++
	}
	s = s[start:]
	paired, end := 0, 0 // brackets are paired up to there
	for {
		for end < len(s) && !isSeparator(s[end]) {
			end++
		}
		for paired < end {
			open := strings.IndexByte(s[paired:end], '[')
			if open < 0 || strings.IndexByte(s[paired:paired+open], ']') >= 0 {
				return s[:end], s[end:]
			}
			size := strings.IndexByte(s[paired+open:], ']')
			if size < 0 {
				return s[:end], s[end:]
			}
			paired += open + size + 1
		}
		if paired <= end {
			return s[:end], s[end:]
		}
		end = paired
	}
}

// Walker walks one list after another in the same memory. The zero value is
// ready for use.
type Walker struct {
	yield    func(name []byte)
	odd      string // what is read otherwise than it looks
	buf      []byte
	ranges   []numberRange
	brackets []bracket
	count    int
}

// errEndless is about a number of 20 digits in a bracket before the last.
var errEndless = errors.New("a bracket that Slurm never finishes reading: want smaller numbers")

// bracket is one bracket of a token before the last: its ranges and the
// text between it and the next.
type bracket struct {
	from, upTo int // indices into ranges
	after      string
}

// note keeps the first oddity.
func (w *Walker) note(format string, args ...any) {
	if w.odd == "" {
		w.odd = fmt.Sprintf(format, args...)
	}
}

func (w *Walker) token(tok string) error {
	open := strings.LastIndexByte(tok, '[')
	if open < 0 {
		w.literal(tok, "")
		w.buf = append(w.buf[:0], tok...)
		return w.emit(w.buf)
	}
	inner, suffix, ok := strings.Cut(tok[open+1:], "]")
	if !ok {
		return fmt.Errorf("bracket without an end in %q: close it with ]", tok)
	}
	w.ranges, w.brackets = w.ranges[:0], w.brackets[:0]
	if err := w.parseRanges(inner); err != nil {
		return err
	}
	last := w.ranges
	prefix, err := w.splitPrefix(tok[:open])
	switch {
	case err != nil && (len(w.brackets) == 0 || errors.Is(err, errEndless)):
		return err
	case err != nil:
		w.note("%q has no names: %v", tok, err)
		return nil
	}
	w.literal(prefix, suffix)
	return w.outer(0, prefix, "", last, suffix)
}

// literal notes brackets that Slurm reads as a part of the name.
func (w *Walker) literal(prefix, suffix string) {
	if strings.IndexByte(suffix, ']') >= 0 || strings.IndexByte(prefix, '[') >= 0 || strings.IndexByte(prefix, ']') >= 0 {
		w.note("%q has a bracket that is read as a part of the name", prefix+suffix)
	}
}

// splitPrefix parses the brackets before the last one from the right, as Slurm
// does, and returns the text before them. It stops at a [ without its ].
func (w *Walker) splitPrefix(prefix string) (string, error) {
	for {
		open := strings.LastIndexByte(prefix, '[')
		if open < 0 {
			return prefix, nil
		}
		size := strings.LastIndexByte(prefix[open:], ']')
		if size < 0 {
			return prefix, nil
		}
		b := bracket{from: len(w.ranges), after: prefix[open+size+1:]}
		if err := w.parseRanges(prefix[open+1 : open+size]); err != nil {
			return "", err
		}
		b.upTo = len(w.ranges)
		var count uint64
		for _, r := range w.ranges[b.from:] {
			if r.lo+r.count-1 == math.MaxUint64 {
				return "", errEndless
			}
			if count += r.count; count > maxRangeHosts {
				return "", fmt.Errorf("bracket %q has more than %d numbers: split it", Shorten(prefix[open:]), maxRangeHosts)
			}
		}
		w.brackets = append(w.brackets, b)
		prefix = prefix[:open]
	}
}

// outer walks the brackets before the last, beginning with the k-th from the
// right. Slurm changes the bracket next to the last slowest. text is the part of
// the name that follows.
func (w *Walker) outer(k int, prefix, text string, last []numberRange, suffix string) error {
	if k == len(w.brackets) {
		return w.single(prefix+text, last, suffix)
	}
	b := &w.brackets[k]
	for _, r := range w.ranges[b.from:b.upTo] {
		for i := range r.count {
			number := appendPadded(make([]byte, 0, 32), r.lo+i, r.width)
			if err := w.outer(k+1, prefix, string(number)+b.after+text, last, suffix); err != nil {
				return err
			}
		}
	}
	return nil
}

// single walks a name's last bracket. It counts up the digits that are there,
// which is faster than to format each number.
func (w *Walker) single(prefix string, ranges []numberRange, suffix string) error {
	w.buf = append(w.buf[:0], prefix...)
	for _, r := range ranges {
		var digits []byte
		for i := range r.count {
			if !countUp(digits) {
				w.buf = appendPadded(w.buf[:len(prefix)], r.lo+i, r.width)
				end := len(w.buf)
				w.buf = append(w.buf, suffix...)
				digits = w.buf[len(prefix):end]
			}
			if err := w.emit(w.buf); err != nil {
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

func (w *Walker) emit(name []byte) error {
	if w.count++; w.count > maxHosts {
		return fmt.Errorf("more than %d names: split it into several lists", maxHosts)
	}
	w.yield(name)
	return nil
}

// parseRanges appends the ranges of one bracket, without its [ and ].
func (w *Walker) parseRanges(s string) error {
	for {
		part, rest, more := strings.Cut(s, ",")
		r, odd, err := parseRange(part)
		if err != nil {
			return err
		}
		if odd {
			w.note("%q is read as %s", part, r)
		}
		w.ranges = append(w.ranges, r)
		if !more {
			return nil
		}
		s = rest
	}
}

// String returns the range as it should be written.
func (r numberRange) String() string {
	if r.count == 0 {
		return "nothing"
	}
	b := appendPadded(nil, r.lo, r.width)
	if r.count > 1 {
		b = appendPadded(append(b, '-'), r.lo+r.count-1, r.width)
	}
	return string(b)
}

// parseRange parses "7" or "007-012" as Slurm does. Spaces and a sign may stand
// before each number, and anything but an x behind the first of two numbers. The
// second number may be missing. odd reports that Slurm reads the range otherwise
// than it looks.
func parseRange(s string) (r numberRange, odd bool, err error) {
	low, high, isRange := strings.Cut(s, "-")
	lo, tail, lowOdd, ok := parseNumber(low)
	if !ok || strings.IndexByte(s, 'x') >= 0 || strings.HasPrefix(high, "-") || tail != "" && high == "" {
		return r, false, fmt.Errorf("%q is no number or range: want such as 7 or 001-018", s)
	}
	hi, highOdd := lo, isRange
	if high != "" {
		if hi, tail, highOdd, ok = parseNumber(high); !ok || tail != "" {
			return r, false, fmt.Errorf("%q is no range: want such as 001-018", s)
		}
		highOdd = highOdd || high[0] == '0' && len(high) != len(low)
	}
	r = numberRange{lo: lo, count: hi - lo + 1, width: len(low)} // the count of all numbers there are is 0
	switch {
	case hi < lo:
		return r, false, fmt.Errorf("range %q runs backwards: write the smaller number first", s)
	case r.count > maxRangeHosts:
		return r, false, fmt.Errorf("range %q has more than %d hosts: split it", s, maxRangeHosts)
	case hi == math.MaxUint64 && r.count > 1:
		return r, false, fmt.Errorf("range %q has numbers that Slurm crashes on: want smaller ones", s)
	}
	return r, lowOdd || highOdd, nil
}

// parseNumber reads the number that s begins with, as C's strtoul does, and
// returns the text behind the number. odd reports that s has other characters
// than digits, or too many digits.
func parseNumber(s string) (n uint64, tail string, odd, ok bool) {
	if n, ok = parseDigits(s); ok {
		return n, "", false, true
	}
	digits := strings.TrimLeft(s, " \t\n\v\f\r")
	negative := strings.HasPrefix(digits, "-")
	if negative || strings.HasPrefix(digits, "+") {
		digits = digits[1:]
	}
	end := 0
	for end < len(digits) && isDigit(digits[end]) {
		end++
	}
	n, err := strconv.ParseUint(digits[:end], 10, 64) // n is the largest number if it does not fit
	if negative && err == nil {
		n = -n
	}
	return n, digits[end:], end < len(s) || err != nil, end > 0
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
	var digits [20]byte
	i := len(digits)
	for {
		i--
		digits[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			break
		}
	}
	for pad := width - (len(digits) - i); pad > 0; pad-- {
		b = append(b, '0')
	}
	return append(b, digits[i:]...)
}

// Shorten cuts a list that a message quotes to 120 bytes.
func Shorten(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
