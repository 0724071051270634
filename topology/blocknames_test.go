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

// TestDomainBlockNames keeps the names of any values within Slurm's limit and apart. A name begins as its value does.
func TestDomainBlockNames(t *testing.T) {
	values := []string{"a", "A", "a.b", "a-b", "a_b", "rack-12345678901234567890123", "8a61c302-7", strings.Repeat("9", 63), strings.Repeat("v", 63), strings.Repeat("v.", 31) + "1", "DH4-016-US-EAST-02A"}
	seen := map[string]bool{}
	for _, key := range []string{"topology.nebius.com/tier-0", "ds.coreweave.com/nvlink.domain"} {
		for _, value := range values {
			for _, name := range (topology.Domain{Key: key, Value: value}).BlockNames() {
				if seen[name] || topology.SlurmName(name) != name || !strings.HasPrefix(name, "nvl-"+value[:1]) {
					t.Errorf("%s=%s: name %s", key, value, name)
				}
				seen[name] = true
			}
		}
	}
	if name := (topology.Domain{Key: "k", Value: "DH4-016-US-EAST-02A"}).BlockNames()[0]; !strings.HasPrefix(name, "nvl-DH4-016-US-EAST-02A-") {
		t.Errorf("name %s", name)
	}
}

func TestIsCliqueBlock(t *testing.T) {
	for name, want := range map[string]bool{"nvl-8a61c302-1": true, "nvl-8a61c30200000045-4294967295": true, "nvl-8a61c302-": false, "nvl-8a61c302": false, "nvl-8a61c302-x": false, "nvl-rack-1": false, "rack-1": false, "8a61c302-1": false} {
		if topology.IsCliqueBlock(name) != want {
			t.Errorf("%s: %t, want %t", name, !want, want)
		}
	}
}
