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

// TestDomainBlockNames keeps names of long values within Slurm's limit and apart.
func TestDomainBlockNames(t *testing.T) {
	long := strings.Repeat("v", 63)
	seen := map[string]bool{}
	for _, d := range []topology.Domain{{Key: "k", Value: long}, {Key: "l", Value: long}, {Key: "k", Value: "short"}} {
		for _, name := range d.BlockNames() {
			if len(name) > 63 || seen[name] || topology.SlurmName(name) != name || !strings.HasPrefix(name, "nvl-"+d.Value[:5]) {
				t.Errorf("%+v: name %s", d, name)
			}
			seen[name] = true
		}
	}
}

func TestIsCliqueBlock(t *testing.T) {
	for name, want := range map[string]bool{"nvl-8a61c302-1": true, "nvl-8a61c30200000045-4294967295": true, "nvl-8a61c302-": false, "nvl-8a61c302": false, "nvl-8a61c302-x": false, "nvl-rack-1": false, "rack-1": false, "8a61c302-1": false} {
		if topology.IsCliqueBlock(name) != want {
			t.Errorf("%s: %t, want %t", name, !want, want)
		}
	}
}
