package hostlist

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Compress returns the host list that Slurm would write for the names. Each name
// stands once, in the order of `scontrol show hostlistsorted`, with ranges over the
// digits at the end. Numbers join a range only if they have the same padding: n9 and
// n010 give "n[9,010]".
func Compress(names []string) string {
	list, _ := CompressFirst(names)
	return list
}

// CompressFirst is Compress, and also returns the first name of the list.
func CompressFirst(names []string) (list, first string) {
	hosts, ok := sortedRun(names)
	size := 64
	if !ok {
		var arena []byte
		hosts, arena = hostKeys(names)
		hosts = sortHosts(hosts, arena)
		hosts = slices.CompactFunc(hosts, func(a, b hostKey) bool { return names[a.name] == names[b.name] })
		size += len(arena)
	}
	if len(hosts) > 0 {
		first = names[hosts[0].name]
	}
	numbered := func(i int) bool { return int(hosts[i].prefix) < len(names[hosts[i].name]) }
	out := make([]byte, 0, size)
	for i := 0; i < len(hosts); {
		prefix := names[hosts[i].name][:hosts[i].prefix]
		end := i + 1
		if numbered(i) {
			for end < len(hosts) && numbered(end) && names[hosts[end].name][:hosts[end].prefix] == prefix {
				end++
			}
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, prefix...)
		if numbered(i) {
			out = appendNumbers(out, hosts[i:end], names)
		}
		i = end
	}
	return string(out), first
}

// Compare orders two names as Compress does: n9 before n10, and an empty name first.
func Compare(a, b string) int {
	hosts, arena := hostKeys([]string{a, b})
	if len(hosts) < 2 {
		return strings.Compare(a, b)
	}
	key := func(h hostKey) []byte { return arena[h.from:h.to] }
	return cmp.Or(bytes.Compare(key(hosts[0]), key(hosts[1])), strings.Compare(a, b))
}

// hostKey is one name and its sort key.
type hostKey struct {
	words    [2]uint64 // sixteen bytes of the key, behind the prefix that all keys share
	from, to int32     // the whole key in the arena
	name     int32
	prefix   int32 // length of the name without the number at its end, if it has one
}

// sortedRun returns the hosts if the names have one length, stand in order and
// differ in the digits at the end only. Most lists are so, and need no keys.
func sortedRun(names []string) ([]hostKey, bool) {
	if len(names) == 0 {
		return nil, true
	}
	n := len(names[0])
	prefix := n
	for prefix > 0 && isDigit(names[0][prefix-1]) {
		prefix--
	}
	if prefix == n || n-prefix > MaxDigits {
		return nil, false
	}
	var previous uint64
	for i, name := range names {
		if len(name) != n || name[:prefix] != names[0][:prefix] {
			return nil, false
		}
		number, ok := parseDigits(name[prefix:])
		if !ok || i > 0 && number <= previous {
			return nil, false
		}
		previous = number
	}
	hosts := make([]hostKey, len(names))
	for i := range hosts {
		hosts[i].name, hosts[i].prefix = int32(i), int32(prefix)
	}
	return hosts, true
}

// hostKeys gives every name a key whose order as bytes is Slurm's order.
func hostKeys(names []string) ([]hostKey, []byte) {
	size := 0
	for _, n := range names {
		size += len(n) + 4
	}
	hosts, arena := make([]hostKey, 0, len(names)), make([]byte, 0, size)
	for i, n := range names {
		if n == "" {
			continue
		}
		h := hostKey{from: int32(len(arena)), name: int32(i)}
		prefix := len(n)
		for prefix > 0 && isDigit(n[prefix-1]) {
			prefix--
		}
		if len(n)-prefix > MaxDigits {
			prefix = len(n)
		}
		h.prefix = int32(prefix)
		arena = append(appendNaturalKey(arena, n[:prefix]), 0)
		if prefix < len(n) {
			arena = appendDigits(append(arena, byte(len(n)-prefix)), n[prefix:])
		}
		h.to = int32(len(arena))
		hosts = append(hosts, h)
	}
	return hosts, arena
}

// appendNaturalKey appends a key that sorts as Slurm compares prefixes. Numbers in it
// sort by value. Numbers with a leading zero sort first, by their digits.
func appendNaturalKey(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		if !isDigit(s[i]) {
			b = append(b, s[i])
			i++
			continue
		}
		end := i + 1
		for end < len(s) && isDigit(s[end]) {
			end++
		}
		if s[i] == '0' {
			b = append(append(b, s[i:end]...), 0)
		} else {
			b = appendDigits(append(b, '1', byte(min(end-i, 255))), s[i:end])
		}
		i = end
	}
	return b
}

// appendDigits appends two digits a byte, which keeps the order of numbers of
// one length and the keys short.
func appendDigits(b []byte, digits string) []byte {
	for i := 0; i+1 < len(digits); i += 2 {
		b = append(b, digits[i]<<4|digits[i+1]&15)
	}
	if len(digits)%2 == 1 {
		b = append(b, digits[len(digits)-1]<<4)
	}
	return b
}

// sortHosts returns the hosts sorted by key. It sorts by radix over eight bytes, and
// then each run of equal bytes by the next eight and the whole key.
func sortHosts(hosts []hostKey, arena []byte) []hostKey {
	common := commonPrefix(hosts, arena)
	for i := range hosts {
		var first [16]byte
		copy(first[:], arena[hosts[i].from+common:hosts[i].to])
		hosts[i].words = [2]uint64{binary.BigEndian.Uint64(first[:8]), binary.BigEndian.Uint64(first[8:])}
	}
	compare := func(a, b hostKey) int {
		if a.words != b.words {
			return cmp.Or(cmp.Compare(a.words[0], b.words[0]), cmp.Compare(a.words[1], b.words[1]))
		}
		return bytes.Compare(arena[a.from:a.to], arena[b.from:b.to])
	}
	if slices.IsSortedFunc(hosts, compare) {
		return hosts
	}
	hosts = radixSort(hosts)
	for i := 0; i < len(hosts); {
		end := i + 1
		for end < len(hosts) && hosts[end].words[0] == hosts[i].words[0] {
			end++
		}
		if end > i+shortRun {
			slices.SortFunc(hosts[i:end], compare)
		} else {
			insertionSort(hosts[i:end], compare)
		}
		i = end
	}
	return hosts
}

// shortRun is how long a run may be to be sorted by insertion.
const shortRun = 32

// insertionSort sorts a few names whose first words are equal; most differ in the
// second, which is compared without a call.
func insertionSort(hosts []hostKey, compare func(a, b hostKey) int) {
	for i := 1; i < len(hosts); i++ {
		h := hosts[i]
		k := i
		for k > 0 && (h.words[1] < hosts[k-1].words[1] || h.words[1] == hosts[k-1].words[1] && compare(h, hosts[k-1]) < 0) {
			hosts[k] = hosts[k-1]
			k--
		}
		hosts[k] = h
	}
}

// commonPrefix returns how many bytes all keys begin with.
func commonPrefix(hosts []hostKey, arena []byte) int32 {
	if len(hosts) == 0 {
		return 0
	}
	one := arena[hosts[0].from:hosts[0].to]
	common := len(one)
	for _, h := range hosts[1:] {
		k := arena[h.from:h.to]
		common = min(common, len(k))
		for i := range common {
			if k[i] != one[i] {
				common = i
				break
			}
		}
	}
	return int32(common)
}

// radixSort sorts by the first eight bytes, the last of them first. Bytes that
// are the same in all are passed over.
func radixSort(hosts []hostKey) []hostKey {
	var differ uint64
	for i := range hosts {
		differ |= hosts[i].words[0] ^ hosts[0].words[0]
	}
	other := make([]hostKey, len(hosts))
	for shift := 0; shift < 64; shift += 8 {
		if byte(differ>>shift) == 0 {
			continue
		}
		var next [257]int
		for i := range hosts {
			next[int(byte(hosts[i].words[0]>>shift))+1]++
		}
		for i := range 256 {
			next[i+1] += next[i] //nolint:gosec // next has 257 places
		}
		for i := range hosts {
			b := byte(hosts[i].words[0] >> shift)
			other[next[b]] = hosts[i]
			next[b]++
		}
		hosts, other = other, hosts
	}
	return hosts
}

// appendNumbers writes the numbers behind one prefix, in brackets when there
// are several.
func appendNumbers(out []byte, hosts []hostKey, names []string) []byte {
	digits := func(i int) string { return names[hosts[i].name][hosts[i].prefix:] }
	if len(hosts) == 1 {
		return append(out, digits(0)...)
	}
	out = append(out, '[')
	for i := 0; i < len(hosts); {
		last, _ := parseDigits(digits(i))
		end := i + 1
		for ; end < len(hosts) && sameWidth(digits(end-1), digits(end)); end++ {
			number, _ := parseDigits(digits(end))
			if number != last+1 {
				break
			}
			last = number
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, digits(i)...)
		if end > i+1 {
			out = append(append(out, '-'), digits(end-1)...)
		}
		i = end
	}
	return append(out, ']')
}

// sameWidth reports whether a range from a gives b: both padded to one width,
// or neither padded.
func sameWidth(a, b string) bool {
	return len(a) == len(b) || a[0] != '0' && b[0] != '0'
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// maxName is the most characters of a host's name.
const maxName = 64

var errName = fmt.Errorf("want one host's name: letters, digits, '-', '_' and '.', the first a letter or digit, at most %d, not ending in more than %d digits", maxName, MaxDigits)

var errReservedName = errors.New("is a word of Slurm: want another name")

// CheckName returns why a text cannot be the name of one node. As a host list
// it would name other nodes or several, or Slurm's files would read it as several words.
func CheckName(name string) error {
	odd := strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) && r != '-' && r != '_' && r != '.' })
	digits := len(name) - len(strings.TrimRight(name, "0123456789"))
	switch {
	case name == "" || odd || !isNameRune(rune(name[0])) || len(name) > maxName || digits > MaxDigits:
		return fmt.Errorf("%q: %w", Shorten(name), errName)
	case strings.EqualFold(name, "DEFAULT") || strings.EqualFold(name, "ALL"):
		return fmt.Errorf("%q %w", name, errReservedName)
	}
	return nil
}

// ShortName is a node's name without its domain: the part before the first dot. A dot between two
// numbers belongs to an address, such as 10.140.71.100, so a name that begins with one stays whole.
func ShortName(name string) string {
	short, domain, _ := strings.Cut(name, ".")
	if next, _, _ := strings.Cut(domain, "."); isNumber(short) && isNumber(next) {
		return name
	}
	return short
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
