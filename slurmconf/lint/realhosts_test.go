package lint_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
)

// TestRealHostlists compares host lists with scontrol, both ways.
func TestRealHostlists(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		s := startSlurm(t, release)
		rng := oracle.Rand(t)
		for round := range 12 {
			names := generateNames(rng, 600)
			list := strings.Join(names, ",")
			got := strings.Join(s.hosts("hostlistsorted", list), "\n")
			if want := hostlist.Compress(names); got != want {
				t.Errorf("round %d: CompressHostlist differs from hostlistsorted of %s:\n got  %s\n real %s", round, list, want, got)
			}
		}
		lists := []string{"n[1-3]", "n[001-018]", "a[1-2]b[01-03]", "a[1-2]b[1-2]c[1-2]", "a[1-2]b[1-2]c[1-2]d[1-2]", "n[1-2]-ib", "r[1-2]n[1-2]-ib", "n[3,1,2]", "n[1,1]", "n[08-11]",
			"a,b c\td", ",,a,,", "n[007,9,1-3]", "rack1n[1-2],rack2n[01-02]", "9", "[1-3]", "0[1-3]", "a[0-2]5", "a[1]", "x[1-2],x[3-4],y"}
		for range 300 {
			lists = append(lists, generateHostlist(rng))
		}
		for _, list := range lists {
			names, err := hostlist.Expand(list)
			if err != nil {
				t.Errorf("ExpandHostlist(%q): %v", list, err)
				continue
			}
			if real := s.hosts("hostnames", list); !slices.Equal(names, real) {
				t.Errorf("ExpandHostlist(%q) = %q, scontrol %q", list, names, real)
			}
		}
	})
}

// TestRealOddHostlists compares what comes of host lists with junk in them.
func TestRealOddHostlists(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		s := startSlurm(t, release)
		rng := oracle.Rand(t)
		lists := []string{"n[18446744073709551615]", "n[99999999999999999999999]", "n[18446744073709551614-18446744073709551615]", "n[0- -1]", "n[1- -1]", "r[1-65536,1]n[1]", "n[0000000000000000000000001-2]"}
		for range oracle.Rounds(40, 300) {
			lists = append(lists, generateOddList(rng))
		}
		refused, count := 0, 0
		for _, list := range lists {
			names, err := hostlist.Expand(list)
			if errors.Is(err, hostlist.ErrNotPlain) {
				continue
			}
			count++
			text, failed := s.checker.Run(t.Context(), "scontrol", "show", "hostnames", list)
			real := slices.DeleteFunc(linesOf(text), func(l string) bool { return strings.HasPrefix(l, "scontrol: error") })
			if failed != nil || len(real) > 0 && strings.HasPrefix(real[0], "Invalid hostlist") {
				refused++
				if err == nil {
					t.Errorf("ExpandHostlist(%q) = %q, scontrol %v: %q", list, names, failed, text)
				}
			} else if err != nil || !slices.Equal(names, real) {
				t.Errorf("ExpandHostlist(%q) = %q, %v, scontrol %q", list, names, err, text)
			}
		}
		t.Logf("Slurm %s: %d of %d lists were refused, %d are not plain", release, refused, count, len(lists)-count)
		if count < len(lists)/3 {
			t.Errorf("only %d of %d lists are plain: the generator is lopsided", count, len(lists))
		}
		if refused < count/10 || refused > count*9/10 {
			t.Errorf("%d of %d were refused: the generator is lopsided", refused, count)
		}
	})
}

// generateOddList makes a host list with junk in some of its brackets.
func generateOddList(rng *rand.Rand) string {
	var b strings.Builder
	for i := range 1 + rng.IntN(3) {
		if i > 0 {
			b.WriteString(pick(rng, ",", ",", " ", ",,", ", "))
		}
		b.WriteString(pick(rng, "n", "n", "n", "n", "n", "n", "r1-", "r1-", "n", "n", "n", "n", "n", "n", "n", "n", "n", "n", "n", "n", "n", "n", "n", "n", "", "]n", "n[", "a]"))
		for range rng.IntN(4) {
			b.WriteString("[" + generateOddRange(rng))
			for rng.IntN(5) == 0 {
				b.WriteString(pick(rng, ",", ",", ",", ",", ",", ",", ",,", ", ") + generateOddRange(rng))
			}
			b.WriteString(pick(rng, "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]x", "]n", "]n", "]]", "", "", "]-["))
		}
	}
	return b.String()
}

// generateOddRange makes what stands between commas in a bracket, mostly a
// range.
func generateOddRange(rng *rand.Rand) string {
	junk := func(words ...string) string {
		if rng.IntN(80) > 0 {
			return ""
		}
		return pick(rng, words...)
	}
	number := pick(rng, "1", "2", "01", "003", "7") + junk("z", ".5", " ", "x", "-")
	switch rng.IntN(80) {
	case 0:
		return pick(rng, "", "-", "-3", "z", "1;2", "1-2-3", "0x1-2")
	case 1:
		return pick(rng, " ", "+", "\t", "0", "z", "-", "[") + number
	case 2, 3, 4, 5, 6:
		return pick(rng, "3-1", "1-65537", "0-65536", "18-017")
	case 7, 8, 9, 10:
		return number
	}
	return number + "-" + junk(" ", "+", "0") + pick(rng, "8", "9", "10", "12") + junk("z", " ", "-")
}

func (s *realSlurm) hosts(what, list string) []string {
	s.t.Helper()
	text, err := s.checker.Run(s.t.Context(), "scontrol", "show", what, list)
	if err != nil {
		s.t.Fatal(err)
	}
	return linesOf(text)
}

// generateNames makes names of every shape, each once, in no order.
func generateNames(rng *rand.Rand, n int) []string {
	prefixes := []string{"n", "n0", "rack1-n", "rack2-n", "rack10-n", "rack01-n", "gpu", "gpu-b", "A", "a1b2c", "a1b02c", "x-", "x_9_"}
	seen := make(map[string]bool)
	for len(seen) < n {
		prefix := pick(rng, prefixes...)
		switch rng.IntN(8) {
		case 0:
			seen[prefix+pick(rng, "login", "mgmt", "z", "", "ib")+pick(rng, "a", "b", "-c")] = true
		case 1:
			seen[fmt.Sprintf("%s%d", prefix, rng.IntN(2000))] = true
		case 2:
			from, width := rng.IntN(120), 1+rng.IntN(4)
			for k := range rng.IntN(12) {
				seen[fmt.Sprintf("%s%0*d", prefix, width, from+k)] = true
			}
		case 3:
			seen[fmt.Sprintf("%s%d-%c%d", prefix, rng.IntN(20), 'a'+rune(rng.IntN(3)), rng.IntN(9))] = true
		default:
			seen[fmt.Sprintf("%s%0*d", prefix, 3+rng.IntN(2), rng.IntN(300))] = true
		}
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// generateHostlist makes a host list of several brackets.
func generateHostlist(rng *rand.Rand) string {
	var b strings.Builder
	for i := range 1 + rng.IntN(3) {
		if i > 0 {
			b.WriteString(pick(rng, ",", ", ", " "))
		}
		for range 1 + rng.IntN(3) {
			b.WriteString(pick(rng, "n", "rack", "r1-", "a0"))
			if rng.IntN(4) > 0 {
				width, from := 1+rng.IntN(3), rng.IntN(20)
				fmt.Fprintf(&b, "[%0*d-%0*d,%d]", width, from, width, from+rng.IntN(4), rng.IntN(200))
			}
		}
		b.WriteString(pick(rng, "", "", "-ib", "9"))
	}
	return b.String()
}
