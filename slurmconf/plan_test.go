package slurmconf_test

import (
	"slices"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
)

func TestUnits(t *testing.T) {
	for spec, want := range map[string][]string{
		"":                                   nil,
		"fabric":                             nil,
		"nvl:nvl-8a61c302-1":                 {"nvl-8a61c302-1"},
		"nvl:nvl-8a61c302-1,fabric:leaf-7":   {"nvl-8a61c302-1", "leaf-7"},
		"default:leaf-7":                     {"leaf-7"},
		"fabric:core:spine-1:leaf-7,other:x": {"leaf-7"},
	} {
		if got, _ := slurmconf.Units(spec); !slices.Equal(got, want) {
			t.Errorf("Units(%q) = %v, want %v", spec, got, want)
		}
	}
}

func TestUnitsTopologies(t *testing.T) {
	for spec, want := range map[string][]string{
		"":                                   nil,
		"fabric":                             nil,
		"nvl:nvl-8a61c302-1,fabric:leaf-7":   {"nvl", "fabric"},
		"fabric:core:spine-1:leaf-7,other:x": {"fabric", "other"},
	} {
		if _, got := slurmconf.Units(spec); !slices.Equal(got, want) {
			t.Errorf("topologies of Units(%q) = %v, want %v", spec, got, want)
		}
	}
}
