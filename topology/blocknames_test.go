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

// TestDomainBlockNames keeps the names of any values apart, of switches and of blocks. The name of a block is within Slurm's
// limit and begins as its value does.
func TestDomainBlockNames(t *testing.T) {
	values := []string{"a", "A", "a.b", "a-b", "a_b", "rack-12345678901234567890123", "8a61c302-7", strings.Repeat("9", 63), strings.Repeat("v", 63), strings.Repeat("v.", 31) + "1", "DH4-016-US-EAST-02A"}
	seen := map[string]bool{}
	for _, value := range append(values, "a/b", "a:b", "A.b", "x12345678901234567890", "x12345678901234567891") {
		if name := topology.SlurmName(value); seen[name] {
			t.Errorf("%s: name %s of another value", value, name)
		} else {
			seen[name] = true
		}
	}
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

// TestKindOfBlock tells blocks of cliques, of labels and of free places apart by their names.
func TestKindOfBlock(t *testing.T) {
	for name, want := range map[string]string{"nvl-8a61c302-1": "clique", "nvl-8a61c30200000045-4294967295": "clique", "nvl-8a61c302-": "", "nvl-8a61c302": "", "nvl-8a61c302-x": "", "nvl-8a61c3-1": "", "nvl-8a61c30g-1": "",
		"nvl-rack-1": "", "rack-1": "", "8a61c302-1": "", "nvl-rack-1-94c3d909x": "label", "nvl-rack-1-94c3d909": "", "rack-1-94c3d909x": "", "spare-4": "spare", "spare-4x": "spare", "spare-": "", "spare-a": "", "rack-4": ""} {
		got := ""
		for kind, is := range map[string]bool{"clique": topology.IsCliqueBlock(name), "label": topology.IsLabelBlock(name), "spare": topology.IsSpareBlock(name)} {
			if is {
				got += kind
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := topology.SpareBlock(3, func(name string) bool { return name == "spare-4" }); got != "spare-4x" {
		t.Errorf("beside spare-4: %s", got)
	}
}
