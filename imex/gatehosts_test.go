package imex

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

func TestHostNames(t *testing.T) {
	for list, want := range map[string][]string{
		"":                       nil,
		",,":                     nil,
		"n1":                     {"n1"},
		"n[7]":                   {"n7"},
		"n[08-11]":               {"n08", "n09", "n10", "n11"},
		"n[1,003-004],login,x-1": {"n1", "n003", "n004", "login", "x-1"},
		"r[1-2]n[01-02]-ib,z":    {"r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib", "z"},
		"[1-2].example.org":      {"1.example.org", "2.example.org"},
	} {
		got, err := hostNames(list)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", list, err, diff)
		}
	}
	for list, want := range map[string]string{
		"n[1-2":                                "do not pair",
		"n1]":                                  "do not pair",
		"n[1]]":                                "do not pair",
		"n[[1]]":                               "do not pair",
		"n[1-2]x[":                             "do not pair",
		"n[]":                                  `range ""`,
		"n[1,]":                                `range ""`,
		"n[1-]":                                `range "1-"`,
		"n[2-1]":                               `range "2-1"`,
		"n[-1]":                                `range "-1"`,
		"n[1-2-3]":                             `range "1-2-3"`,
		"n[4294967296]":                        `range "4294967296"`,
		"n[0-65536]":                           "more than 65536 names",
		"a[1-9999]b[1-999999]":                 "more than 65536 names",
		"n[" + strings.Repeat("0", 300) + "1]": "range",
		strings.Repeat("n", 300):               "more than 256 bytes",
		strings.Repeat("[1]", 300):             "more than 256 bytes",
		"n[1-99999]" + strings.Repeat("[1]", 9e4): "more than 256 bytes",
	} {
		if names, err := hostNames(list); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("%.40s: %d names, error %v, want %q", list, len(names), err, want)
		}
	}
	if names, err := hostNames("n[0-65535]"); len(names) != maxJobNodes || err != nil || names[65535] != "n65535" {
		t.Errorf("%d names, %v", len(names), err)
	}
}

// FuzzHostNames compares with the reader of host lists that real Slurms have
// confirmed: this one may refuse more, and reads nothing else.
func FuzzHostNames(f *testing.F) {
	for _, list := range []string{"n[001-018],rack[1-2]n[01-16]-ib", "a[1-2]b[1-2]c[1-2]", "n[8-011]", "n[1,1]", ",a,,b", "[1-3]", "n[1-2]]", "n[00-1]", "n[0-70000]", "]["} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		got, err := hostNames(list)
		if len(got) > maxJobNodes || slices.ContainsFunc(got, func(s string) bool { return s == "" || strings.ContainsAny(s, ",[]") }) {
			t.Fatalf("%d names: %.200q", len(got), got)
		}
		if err != nil || strings.ContainsAny(list, " \t\n") { // they separate names too, and are in none
			return
		}
		want, err := hostlist.Expand(list)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%.200q and %.200q, %v", got, want, err)
		}
	})
}
