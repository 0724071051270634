package main

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// TestFitAcross asks for a job that is larger than one of two topologies, and smaller than both
// together.
func TestFitAcross(t *testing.T) {
	blocks := func(name, fabric, node string) topology.Topology {
		return topology.Topology{Name: name, Kind: topology.KindBlock, Default: name == "nvl-a", Fabric: fabric, Sizes: []int{2},
			Blocks: []topology.Block{{Name: name + "1", Nodes: topology.Names{node + "1", node + "2"}}}}
	}
	for fabric, want := range map[string]string{
		"b": "; no job that Slurm places by blocks runs across nvl-a (2 nodes) and nvl-b (2 nodes): rootSwitch joins fabrics, if one switch is above them",
		"a": "; no job that Slurm places by blocks runs across nvl-a (2 nodes) and nvl-b (2 nodes): baseBlockSize: 2, without sizeClasses, puts racks of all sizes into one topology",
	} {
		p := newFitPlan(&publication.Cluster{Release: slurmconf.Latest}, []topology.Topology{blocks("nvl-a", "a", "x"), blocks("nvl-b", fabric, "y")}, nil)
		for nodes, across := range map[int]bool{2: false, 3: true, 5: false} {
			a, err := p.ask(&fit.Job{Nodes: nodes}, "")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.HasSuffix(a.Why, want); got != across {
				t.Errorf("%d nodes: %s: %q", nodes, a.Verdict, a.Why)
			}
		}
	}
}
