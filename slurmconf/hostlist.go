package slurmconf

import (
	"fmt"
	"strings"
)

// maxRangeHosts is how many hosts Slurm takes in one range of a bracket, and
// maxHosts how many names one host list may have here.
const (
	maxRangeHosts = 64 * 1024
	maxHosts      = 1 << 20
	// maxDigits is how many digits a number in a bracket may have: more do not
	// fit Slurm's integers.
	maxDigits = 18
)

// hostRange is one range of a bracket: the numbers lo to hi, padded with zeros
// to width digits.
type hostRange struct {
	lo, hi uint64
	width  int
}

// ExpandHostlist returns the names of a Slurm host list such as
// "n[001-018],rack[1-2]n[01-16]-ib", in Slurm's order: the last bracket of a
// name changes fastest, those before it from the left. Names are kept as often as they are listed. An empty
// list has no names. A list that Slurm refuses, or of more than 1,048,576
// names, is an error that quotes it.
func ExpandHostlist(s string) ([]string, error) {
	x := expander{arena: make([]byte, 0, 2*len(s)), ends: make([]int, 0, 16+strings.Count(s, ","))}
	if err := walkHosts(s, x.add); err != nil {
		return nil, err
	}
	if len(x.ends) == 0 {
		return nil, nil
	}
	all := string(x.arena)
	names := make([]string, len(x.ends))
	start := 0
	for i, end := range x.ends {
		names[i] = all[start:end]
		start = end
	}
	return names, nil
}

type expander struct {
	arena []byte
	ends  []int
}

func (x *expander) add(name []byte) {
	x.arena = append(x.arena, name...)
	x.ends = append(x.ends, len(x.arena))
}

// walkHosts calls yield with every name of the list; the bytes are valid during
// the call only.
func walkHosts(s string, yield func(name []byte)) error {
	w := hostWalker{yield: yield}
	for rest := s; ; {
		var token string
		token, rest = nextHostToken(rest)
		if token == "" {
			return nil
		}
		if err := w.token(token); err != nil {
			return fmt.Errorf("host list %q: %w", shorten(s), err)
		}
	}
}

// isHostSeparator reports whether c separates names outside of brackets.
func isHostSeparator(c byte) bool { return c == ',' || c == ' ' || c == '\t' || c == '\n' }

// nextHostToken cuts the first name or bracketed name off s. A separator within
// a pair of brackets does not end it.
func nextHostToken(s string) (token, rest string) {
	start := 0
	for start < len(s) && isHostSeparator(s[start]) {
		start++
	}
	end := start
	for end < len(s) && !isHostSeparator(s[end]) {
		if s[end] == '[' {
			if i := strings.IndexByte(s[end:], ']'); i >= 0 {
				end += i
			}
		}
		end++
	}
	return s[start:end], s[end:]
}

// hostWalker expands one token after another into the same buffers.
type hostWalker struct {
	yield    func(name []byte)
	buf      []byte
	ranges   []hostRange
	brackets []hostBracket
	values   []string // the text of each outer bracket while it is walked
	count    int
}

// hostBracket is one bracket of a token: the text before it and its ranges.
type hostBracket struct {
	before     string
	from, upTo int // indices into ranges
}

func (w *hostWalker) token(tok string) error {
	open := strings.LastIndexByte(tok, '[')
	if open < 0 {
		w.buf = append(w.buf[:0], tok...)
		return w.emit(w.buf)
	}
	size := strings.IndexByte(tok[open:], ']')
	if size < 0 {
		return fmt.Errorf("bracket without an end in %q: close it with ]", tok)
	}
	w.ranges, w.brackets = w.ranges[:0], w.brackets[:0]
	if err := w.splitPrefix(tok[:open]); err != nil {
		return err
	}
	from := len(w.ranges)
	if err := w.parseRanges(tok[open+1 : open+size]); err != nil {
		return err
	}
	last := hostBracket{before: w.tail(tok[:open]), from: from, upTo: len(w.ranges)}
	if len(w.brackets) == 0 {
		return w.single(last, tok[open+size+1:])
	}
	w.values = make([]string, len(w.brackets))
	return w.outer(len(w.brackets)-1, last, tok[open+size+1:])
}

// splitPrefix parses the brackets before the last one.
func (w *hostWalker) splitPrefix(prefix string) error {
	for {
		open := strings.IndexByte(prefix, '[')
		if open < 0 {
			return nil
		}
		size := strings.IndexByte(prefix[open:], ']')
		if size < 0 {
			return nil // a lone [ is part of the name, as Slurm has it
		}
		b := hostBracket{before: prefix[:open], from: len(w.ranges)}
		if err := w.parseRanges(prefix[open+1 : open+size]); err != nil {
			return err
		}
		b.upTo = len(w.ranges)
		w.brackets = append(w.brackets, b)
		prefix = prefix[open+size+1:]
	}
}

// tail returns what of prefix follows its last whole bracket.
func (w *hostWalker) tail(prefix string) string {
	for range w.brackets {
		open := strings.IndexByte(prefix, '[')
		prefix = prefix[open+strings.IndexByte(prefix[open:], ']')+1:]
	}
	return prefix
}

// outer walks the brackets before the last: Slurm varies the one next to the
// last slowest and the first fastest.
func (w *hostWalker) outer(k int, last hostBracket, suffix string) error {
	if k < 0 {
		var prefix strings.Builder
		for i, b := range w.brackets {
			prefix.WriteString(b.before)
			prefix.WriteString(w.values[i])
		}
		prefix.WriteString(last.before)
		last.before = prefix.String()
		return w.single(last, suffix)
	}
	for _, r := range w.ranges[w.brackets[k].from:w.brackets[k].upTo] {
		for n := r.lo; n <= r.hi; n++ {
			w.values[k] = string(appendPadded(nil, n, r.width))
			if err := w.outer(k-1, last, suffix); err != nil {
				return err
			}
		}
	}
	return nil
}

// single walks a name's last bracket.
func (w *hostWalker) single(b hostBracket, suffix string) error {
	for _, r := range w.ranges[b.from:b.upTo] {
		w.buf = append(w.buf[:0], b.before...)
		for n := r.lo; n <= r.hi; n++ {
			w.buf = appendPadded(w.buf[:len(b.before)], n, r.width)
			w.buf = append(w.buf, suffix...)
			if err := w.emit(w.buf); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *hostWalker) emit(name []byte) error {
	if w.count++; w.count > maxHosts {
		return fmt.Errorf("more than %d names: split it into several lists", maxHosts)
	}
	w.yield(name)
	return nil
}

// parseRanges appends the ranges of one bracket, without its [ and ].
func (w *hostWalker) parseRanges(s string) error {
	for {
		part, rest, more := strings.Cut(s, ",")
		r, err := parseHostRange(part)
		if err != nil {
			return err
		}
		w.ranges = append(w.ranges, r)
		if !more {
			return nil
		}
		s = rest
	}
}

// parseHostRange parses "7", "007-012", or "7-", which Slurm takes as 7.
func parseHostRange(s string) (hostRange, error) {
	low, high, isRange := strings.Cut(s, "-")
	lo, ok := parseDigits(low)
	if !ok {
		return hostRange{}, fmt.Errorf("%q is no number or range: want such as 7 or 001-018, numbers of at most %d digits", s, maxDigits)
	}
	hi := lo
	if isRange && high != "" {
		if hi, ok = parseDigits(high); !ok {
			return hostRange{}, fmt.Errorf("%q is no range: want such as 001-018, numbers of at most %d digits", s, maxDigits)
		}
	}
	if hi < lo {
		return hostRange{}, fmt.Errorf("range %q runs backwards: write the smaller number first", s)
	}
	if hi-lo >= maxRangeHosts {
		return hostRange{}, fmt.Errorf("range %q has more than %d hosts: split it", s, maxRangeHosts)
	}
	return hostRange{lo: lo, hi: hi, width: len(low)}, nil
}

func parseDigits(s string) (uint64, bool) {
	if s == "" || len(s) > maxDigits {
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

// shorten keeps a quoted text within a line.
func shorten(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
