package gres

import (
	"strconv"
	"strings"
)

// ReadCount reads a count, with at most one of the suffixes K, M, G, T
// and P for 1024 and its powers. Slurm takes other texts too, and reads some of them
// otherwise than they look.
func ReadCount(s string) (n uint64, ok bool) {
	shift := 0
	if s != "" {
		if i := strings.IndexByte("kmgtp", s[len(s)-1]|0x20); i >= 0 {
			shift, s = 10*(i+1), s[:len(s)-1]
		}
	}
	n, err := strconv.ParseUint(s, 10, 64-shift)
	return n << shift, err == nil
}
