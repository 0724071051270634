package slurmconf

import (
	"math"
	"strconv"
	"strings"
)

// ReadCount reads a count as slurmd does: the number at the beginning, or zero if
// there is none, and a suffix such as K. ok reports that slurmd takes it. plain
// reports that the text is a number of 1 or more with at most one of the suffixes K,
// M, G, T and P.
func ReadCount(s string) (n uint64, plain, ok bool) {
	n, ok = slurmCount(s)
	if s == "" {
		return n, false, ok
	}
	shift := 0
	if i := strings.IndexByte("kmgtp", s[len(s)-1]|0x20); i >= 0 {
		shift, s = 10*(i+1), s[:len(s)-1]
	}
	number, err := strconv.ParseUint(s, 10, 64-shift)
	if err == nil && number > 0 {
		return number << shift, ok && n == number<<shift, ok
	}
	return n, false, ok
}

func slurmCount(s string) (uint64, bool) {
	digits := strings.TrimLeft(s, " \t\n\v\f\r")
	end := 0
	if strings.HasPrefix(digits, "-") || strings.HasPrefix(digits, "+") {
		end++
	}
	sign := end
	for end < len(digits) && isDigit(digits[end]) {
		end++
	}
	var n int64
	suffix := s
	if end > sign {
		n, _ = strconv.ParseInt(digits[:end], 10, 64) // the nearest number if it does not fit
		suffix = digits[end:]
	}
	if n == math.MinInt64 || n == math.MaxInt64 {
		return 0, false
	}
	if suffix == "" {
		return uint64(n), true
	}
	suffix, unit := strings.ToLower(suffix), uint64(1024)
	power := strings.IndexByte("kmgtp", suffix[0]) + 1
	switch suffix[1:] {
	case "b":
		unit = 1000
	case "", "ib":
	default:
		return 0, false
	}
	value := uint64(n)
	for range power {
		value *= unit // slurmd lets it wrap too
	}
	return value, power > 0
}

func isDigit(c byte) bool { return c-'0' <= 9 }
