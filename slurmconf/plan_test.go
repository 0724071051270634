package slurmconf_test

import (
	"slices"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
)

func TestUnits(t *testing.T) {
	for spec, want := range map[string]struct{ units, topologies []string }{
		"":                                   {},
		"fabric":                             {},
		"nvl:nvl-8a61c302-1":                 {[]string{"nvl-8a61c302-1"}, []string{"nvl"}},
		"nvl:nvl-8a61c302-1,fabric:leaf-7":   {[]string{"nvl-8a61c302-1", "leaf-7"}, []string{"nvl", "fabric"}},
		"default:leaf-7":                     {[]string{"leaf-7"}, []string{"default"}},
		"fabric:core:spine-1:leaf-7,other:x": {[]string{"leaf-7"}, []string{"fabric", "other"}},
	} {
		if units, topologies := slurmconf.Units(spec); !slices.Equal(units, want.units) || !slices.Equal(topologies, want.topologies) {
			t.Errorf("Units(%q) = %v of %v, want %v of %v", spec, units, topologies, want.units, want.topologies)
		}
	}
}
