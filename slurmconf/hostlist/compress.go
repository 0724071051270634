package hostlist

import (
	"cmp"
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
	hosts := make([]host, 0, len(names))
	for _, name := range names {
		if name != "" {
			hosts = append(hosts, cutNumber(name))
		}
	}
	slices.SortFunc(hosts, compareHosts)
	hosts = slices.Compact(hosts)
	var out []byte
	for len(hosts) > 0 {
		end := 1
		for hosts[0].digits != "" && end < len(hosts) && hosts[end].prefix == hosts[0].prefix {
			end++
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(out, hosts[0].prefix...)
		out = appendNumbers(out, hosts[:end])
		hosts = hosts[end:]
	}
	return string(out)
}

// Compare orders two names as Compress does: n9 before n10, and an empty name first.
func Compare(a, b string) int { return compareHosts(cutNumber(a), cutNumber(b)) }

// host is a name, cut before the number at its end.
type host struct{ prefix, digits string }

// cutNumber cuts a name. A number of more than MaxDigits digits stays in the prefix.
func cutNumber(name string) host {
	end := len(name)
	for end > 0 && isDigit(name[end-1]) {
		end--
	}
	if len(name)-end > MaxDigits {
		end = len(name)
	}
	return host{name[:end], name[end:]}
}

// compareHosts orders names by prefix. Names of one prefix sort by the length of their
// number, then by the number.
func compareHosts(a, b host) int {
	if order := comparePrefixes(a.prefix, b.prefix); order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(len(a.digits), len(b.digits)), strings.Compare(a.digits, b.digits))
}

// comparePrefixes orders prefixes as Slurm does. Numbers in them sort by value. Numbers
// with a leading zero sort first, by their digits.
func comparePrefixes(a, b string) int {
	for a != "" && b != "" {
		numberA, numberB := leadingDigits(a), leadingDigits(b)
		if numberA == "" || numberB == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		if numberA[0] != '0' && numberB[0] != '0' && len(numberA) != len(numberB) {
			return cmp.Compare(len(numberA), len(numberB))
		}
		if order := strings.Compare(numberA, numberB); order != 0 {
			return order
		}
		a, b = a[len(numberA):], b[len(numberB):]
	}
	return cmp.Compare(len(a), len(b))
}

// leadingDigits returns the digits that s begins with.
func leadingDigits(s string) string {
	end := 0
	for end < len(s) && isDigit(s[end]) {
		end++
	}
	return s[:end]
}

// appendNumbers writes the numbers behind one prefix, in brackets when there
// are several.
func appendNumbers(out []byte, hosts []host) []byte {
	if len(hosts) == 1 {
		return append(out, hosts[0].digits...)
	}
	out = append(out, '[')
	for i := 0; i < len(hosts); {
		last, _ := parseDigits(hosts[i].digits)
		end := i + 1
		for ; end < len(hosts) && sameWidth(hosts[end-1].digits, hosts[end].digits); end++ {
			number, _ := parseDigits(hosts[end].digits)
			if number != last+1 {
				break
			}
			last = number
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, hosts[i].digits...)
		if end > i+1 {
			out = append(append(out, '-'), hosts[end-1].digits...)
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
