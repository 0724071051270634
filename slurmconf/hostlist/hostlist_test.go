package hostlist

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	for list, want := range map[string][]string{
		"":                   nil,
		" , ":                nil,
		"n1":                 {"n1"},
		"n[1-3]":             {"n1", "n2", "n3"},
		"n[08-11]":           {"n08", "n09", "n10", "n11"},
		"n[003,1,2]":         {"n003", "n1", "n2"},
		"rack1n[1-2]":        {"rack1n1", "rack1n2"},
		"a0[1-2]5":           {"a015", "a025"},
		"a[1-2]b[3-4]":       {"a1b3", "a1b4", "a2b3", "a2b4"},
		"a[1-2]b[1-2]c[1-2]": {"a1b1c1", "a1b1c2", "a2b1c1", "a2b1c2", "a1b2c1", "a1b2c2", "a2b2c1", "a2b2c2"},
		"n[1-2]-ib,login":    {"n1-ib", "n2-ib", "login"},
		"n1,n1":              {"n1", "n1"},
		"/dev/nvidia[0-1,5]": {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia5"},
	} {
		got, err := Expand(list)
		if err != nil {
			t.Errorf("Expand(%q): %v", list, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Expand(%q) (-want +got):\n%s", list, diff)
		}
	}
}

func TestExpandErrors(t *testing.T) {
	for list, want := range map[string]string{
		"n[1-2":                        "without an end",
		"n[3-1]":                       "runs backwards",
		"n[1-65537]":                   "more than 65536 hosts",
		"a[1-60000]b[1-60000]c[1-999]": "more than 1048576 names",
	} {
		_, err := Expand(list)
		if err == nil || errors.Is(err, ErrNotPlain) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), list) {
			t.Errorf("Expand(%q) = %v, want an error with %q and the list", list, err, want)
		}
	}
	for _, list := range []string{"n[]", "n[-3]", "n[a-b]", "n[1,]", "n[1-2-3]", "n[1,,2]", "n[1x-2]", "n[1z]", "n[1--2]", "n[1-2z]", "n[1- -2]", "n[1-]", "n[8-011]", "n[01z-2]", "n[ 1- +2]", "n[0- -1],m",
		"n[12345678901234567890123]", "n[18446744073709551614-18446744073709551615]", "n[1]]", "n[[1-2]", "]n[1,2]", "r[1]]n[1-2]", "r[x]n[1-2]", "r[2-1]n[1]", "r[1-65536,1]n[1]", "[1-2]x[n[3]", "n{1}", "n1,block{b1}"} {
		if names, err := Expand(list); !errors.Is(err, ErrNotPlain) || !strings.Contains(err.Error(), list) {
			t.Errorf("Expand(%q) = %q, %v, want ErrNotPlain and the list", list, names, err)
		}
	}
}

func TestCompress(t *testing.T) {
	for want, names := range map[string][]string{
		"":                       nil,
		"n1":                     {"n1", "n1"},
		"n[1-3]":                 {"n3", "n1", "n2"},
		"n[9,010]":               {"n9", "n010"},
		"n[9-10]":                {"n9", "n10"},
		"n[9,009-010]":           {"n9", "n009", "n010"},
		"n[099-101]":             {"n101", "n099", "n100"},
		"n[99,099-100]":          {"n99", "n100", "n099"},
		"login,n,n[0-1]":         {"n1", "n0", "n", "login"},
		"rack2-n1,rack10-n[1-2]": {"rack10-n2", "rack2-n1", "rack10-n1"},
		"a01-n1,a1-n1":           {"a1-n1", "a01-n1"},
		"9":                      {"9"},
		"[9-10]":                 {"10", "9"},
	} {
		if got := Compress(names); got != want {
			t.Errorf("Compress(%q) = %q, want %q", names, got, want)
		}
	}
	long := []string{"n1234567890123456789", "n1234567890123456788"}
	if got, want := Compress(long), "n1234567890123456788,n1234567890123456789"; got != want {
		t.Errorf("Compress(%q) = %q, want %q: too many digits for a range", long, got, want)
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "n[001-018]", "a[1-2]b[1-2]c[1-2],x", "n[1-]", "n[[1]", "n]1[", "n[1]]", "n[0-9]-ib,,a b", "n[9,010]", "n[01z-3]", "n[ 1- +2]", "r[x]s[1-2]n[1]", "a]b[1,2]", "n[0- -1]", "a[1]{b}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 200 || strings.Count(s, "-") > 2 || strings.IndexByte(s, 0) >= 0 {
			return // keeps the lists small, and C's strings end at a zero
		}
		names, err := Expand(s)
		if err != nil {
			return
		}
		list := Compress(names)
		back, err := Expand(list)
		if err != nil {
			t.Fatalf("Expand(Compress(%q)) = Expand(%q): %v", names, list, err)
		}
		want := slices.Compact(slices.Sorted(slices.Values(names)))
		slices.Sort(back)
		if !slices.Equal(back, want) {
			t.Fatalf("%q -> %q -> %q, want %q", s, list, back, want)
		}
		if again := Compress(back); again != list {
			t.Fatalf("Compress is not stable: %q, then %q", list, again)
		}
	})
}

func FuzzCompress(f *testing.F) {
	f.Add("n9 n10 n010 n1 login rack1-n1")
	f.Add("0 00 000 a0 a00 a0b")
	f.Fuzz(func(t *testing.T, s string) {
		names := strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || strings.ContainsRune(",[]{}", r) })
		list := Compress(names)
		back, err := Expand(list)
		if err != nil {
			t.Fatalf("Expand(%q) of %q: %v", list, names, err)
		}
		if want := slices.Compact(slices.SortedFunc(slices.Values(names), Compare)); !slices.Equal(back, want) {
			t.Fatalf("%q -> %q -> %q, want %q", names, list, back, want)
		}
	})
}
