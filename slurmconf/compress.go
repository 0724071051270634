package slurmconf

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
)

// CompressHostlist returns the shortest host list that Slurm would write for
// the names: each once, in the order of `scontrol show hostlistsorted`, ranges
// over the digits at the end. Numbers join a range only when they have the same
// padding: n9 and n010 give "n[9,010]".
func CompressHostlist(names []string) string {
	hosts, arena := hostKeys(names)
	sortHosts(hosts, arena)
	hosts = slices.CompactFunc(hosts, func(a, b hostKey) bool { return names[a.name] == names[b.name] })
	out := make([]byte, 0, min(len(arena), 64+8*len(hosts)))
	for i := 0; i < len(hosts); {
		prefix := names[hosts[i].name][:hosts[i].prefix]
		end := i + 1
		if hosts[i].numbered {
			for end < len(hosts) && hosts[end].numbered && names[hosts[end].name][:hosts[end].prefix] == prefix {
				end++
			}
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, prefix...)
		if hosts[i].numbered {
			out = appendNumbers(out, hosts[i:end], names)
		}
		i = end
	}
	return string(out)
}

// hostKey is one name with what it is sorted by.
type hostKey struct {
	first    uint64 // the first bytes of the key, for speed
	from, to int32  // the whole key in the arena
	name     int32
	prefix   int32 // length of the name without the digits at its end
	numbered bool
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
		if h.numbered = prefix < len(n) && len(n)-prefix <= maxDigits; !h.numbered {
			prefix = len(n)
		}
		h.prefix = int32(prefix)
		arena = append(appendNaturalKey(arena, n[:prefix]), 0)
		if h.numbered {
			arena = append(append(arena, byte(len(n)-prefix)), n[prefix:]...)
		}
		h.to = int32(len(arena))
		hosts = append(hosts, h)
	}
	return hosts, arena
}

// appendNaturalKey appends a key that sorts as Slurm compares prefixes: numbers
// within by value, those with a leading zero before the others and by digits.
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
			b = append(append(b, '1', byte(min(end-i, 255))), s[i:end]...)
		}
		i = end
	}
	return b
}

// sortHosts sorts by key. All keys' common beginning is skipped, so that eight
// bytes decide nearly every comparison.
func sortHosts(hosts []hostKey, arena []byte) {
	if len(hosts) < 2 {
		return
	}
	key := func(h hostKey) []byte { return arena[h.from:h.to] }
	one := key(hosts[0])
	common := len(one)
	for _, h := range hosts[1:] {
		k := key(h)
		common = min(common, len(k))
		for i := range common {
			if k[i] != one[i] {
				common = i
				break
			}
		}
	}
	for i := range hosts {
		var first [8]byte
		copy(first[:], key(hosts[i])[common:])
		hosts[i].first = binary.BigEndian.Uint64(first[:])
	}
	compare := func(a, b hostKey) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		return slices.Compare(key(a), key(b))
	}
	if !slices.IsSortedFunc(hosts, compare) {
		slices.SortFunc(hosts, compare)
	}
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
		end, last := i+1, digits(i)
		for end < len(hosts) && follows(last, digits(end)) {
			last = digits(end)
			end++
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, digits(i)...)
		if end > i+1 {
			out = append(append(out, '-'), last...)
		}
		i = end
	}
	return append(out, ']')
}

// follows reports whether b is a plus one, written so that a range from a
// gives b.
func follows(a, b string) bool {
	if len(a) == len(b) {
		return number(a)+1 == number(b)
	}
	return a[0] != '0' && b[0] != '0' && number(a)+1 == number(b)
}

func number(digits string) uint64 {
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func isDigit(c byte) bool { return c-'0' <= 9 }
