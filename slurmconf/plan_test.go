package slurmconf_test

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// TestFromPlan chooses what a file has of a plan.
func TestFromPlan(t *testing.T) {
	plan := &topology.Plan{Topologies: []topology.Topology{{Name: "nvl", Default: true, Kind: "block"}, {Name: "fabric", Kind: "tree"}}}
	for _, tt := range []struct {
		choice slurmconf.Choice
		want   string // the name of each, with a star at the default one
	}{
		{slurmconf.Choice{}, "default*"},
		{slurmconf.Choice{Kind: slurmconf.KindTree}, "default*"},
		{slurmconf.Choice{YAML: true}, "nvl* fabric"},
		{slurmconf.Choice{YAML: true, Kind: slurmconf.KindTree}, "fabric*"},
		{slurmconf.Choice{YAML: true, Default: "fabric", Flat: true}, "nvl fabric* flat"},
		{slurmconf.Choice{YAML: true, Default: "flat"}, "nvl fabric flat*"},
	} {
		all, err := slurmconf.FromPlan(plan, tt.choice)
		var got []string
		for _, topo := range all {
			if topo.Default {
				topo.Name += "*"
			}
			got = append(got, topo.Name)
		}
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%+v: %v, %v, want %s", tt.choice, got, err, tt.want)
		}
	}
}

// TestSortFirst keeps the order of the others.
func TestSortFirst(t *testing.T) {
	all := []topology.Topology{{Name: "x"}, {Name: "fabric"}, {Name: "y"}, {Name: "nvl-18"}, {Name: "nvl-9"}}
	names := slurmconf.NamesOf(false, true)
	names.SortFirst(all)
	var got []string
	for i := range all {
		got = append(got, all[i].Name)
	}
	if want := "fabric nvl-18 nvl-9 x y"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}
