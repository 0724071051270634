package topology_test

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

func FuzzSlurmName(f *testing.F) {
	f.Add("leaf.with.dots/and:colons")
	f.Add("12345678901234567890")
	f.Fuzz(func(t *testing.T, s string) {
		name := topology.SlurmName(s)
		digits := len(name) - len(strings.TrimRight(name, "0123456789"))
		if name == "" || len(name) > 63 || digits > 18 || strings.ContainsFunc(name, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", r)
		}) {
			t.Fatalf("%q became %q", s, name)
		}
	})
}
