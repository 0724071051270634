package placement_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// inFile is a plan that was read from a file with topologies of some blocks or switches.
func inFile(blocks []topology.Block, switches []topology.Switch) *given {
	p := &topology.Plan{}
	if blocks != nil {
		p.Topologies = append(p.Topologies, topology.Topology{Name: topology.NVLinkTopology, Default: true, Kind: topology.KindBlock, Sizes: []int{4}, Blocks: blocks})
	}
	if switches != nil {
		p.Topologies = append(p.Topologies, topology.Topology{Name: topology.FabricTopology, Default: blocks == nil, Kind: topology.KindTree, Switches: switches})
	}
	return &given{Plan: p}
}

// slurmNamesOf returns the Slurm names of facts.
func slurmNamesOf(facts []topology.Facts) (names topology.Names) {
	for i := range facts {
		names = append(names, facts[i].SlurmName)
	}
	return names
}

// TestBlocksOfAFile: people named the blocks. A block keeps its name and its place if most nodes of it and of an
// NVLink domain are the same, also from then on.
func TestBlocksOfAFile(t *testing.T) {
	facts := site(2, 4)
	first, second := slurmNamesOf(facts[:4]), slurmNamesOf(facts[4:])
	names := func(all ...topology.Names) topology.Names { return slices.Concat(all...) }
	nvl := func(number int) string { return cliqueOf(number).BlockNames()[0] }
	for _, tt := range []struct {
		name   string
		blocks []topology.Block
		want   []string
	}{
		{"the same nodes", []topology.Block{{Name: "rack-b", Nodes: second}, {Name: "rack-a", Nodes: first}}, []string{"rack-b " + strings.Join(second, ","), "rack-a " + strings.Join(first, ",")}},
		{"a node that is not there now", []topology.Block{{Name: "rack-a", Nodes: names(first, topology.Names{"x1"})}}, []string{"rack-a " + strings.Join(first, ","), nvl(2) + " " + strings.Join(second, ",")}},
		{"a node that is new", []topology.Block{{Name: "rack-a", Nodes: first[:3]}}, []string{"rack-a " + strings.Join(first, ","), nvl(2) + " " + strings.Join(second, ",")}},
		{"half of the domain", []topology.Block{{Name: "rack-a", Nodes: first[:2]}, {Name: "rack-b", Nodes: second}},
			[]string{"rack-a ", "rack-b " + strings.Join(second, ","), nvl(1) + " " + strings.Join(first, ",")}},
		{"both domains in one block", []topology.Block{{Name: "hall", Nodes: names(first, second)}},
			[]string{"hall ", nvl(2) + " " + strings.Join(second, ","), nvl(1) + " " + strings.Join(first, ",")}},
		{"another domain is published by the name", []topology.Block{{Name: "rack-a", Nodes: first, Clique: cliqueOf(9)}, {Name: "rack-b", Nodes: second}},
			[]string{"rack-a ", "rack-b " + strings.Join(second, ","), nvl(1) + " " + strings.Join(first, ",")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := mustPlan(t, facts, inFile(tt.blocks, nil), short)
			if diff := cmp.Diff(tt.want, lines(plan)[1:]); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			later := slices.Clone(facts)
			for i := range later[:3] {
				later[i] = topology.Facts{Name: later[i].Name, SlurmName: later[i].SlurmName} // nobody knows where they are
			}
			if diff := cmp.Diff(tt.want, lines(mustPlan(t, later, previous(plan), short))[1:]); diff != "" {
				t.Errorf("later (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSwitchesOfAFile: people named the switches, and labels call these otherwise. A switch keeps its name if most
// nodes below either are below both, also when all nodes of a leaf were away.
func TestSwitchesOfAFile(t *testing.T) {
	facts := leaves([]string{"spine-1"}, []string{"spine-1"})
	first, second := slurmNamesOf(facts[:4]), slurmNamesOf(facts[4:])
	list := func(leaf string, nodes topology.Names) string { return leaf + " " + strings.Join(nodes, ",") + " " }
	for _, tt := range []struct {
		name     string
		switches []topology.Switch
		want     []string
	}{
		{"the same nodes", []topology.Switch{{Name: "ib1", Nodes: second}, {Name: "ib2", Nodes: first}, {Name: "core", Children: []string{"ib1", "ib2"}}},
			[]string{list("ib1", second), list("ib2", first), "core  ib1,ib2"}},
		{"another switch above each leaf", []topology.Switch{{Name: "ib1", Nodes: first}, {Name: "ib2", Nodes: second}, {Name: "c1", Children: []string{"ib1"}}, {Name: "c2", Children: []string{"ib2"}}},
			[]string{list("ib1", first), list("ib2", second), "spine-1  ib1,ib2"}},
		{"a node is new", []topology.Switch{{Name: "ib1", Nodes: first[:3]}}, []string{list("ib1", first), list("leaf-2", second), "spine-1  ib1,leaf-2"}},
		{"half of the nodes", []topology.Switch{{Name: "ib1", Nodes: first[:2]}}, []string{list("ib1", nil), list("leaf-1", first), list("leaf-2", second), "spine-1  leaf-1,leaf-2"}},
		{"labels call it so", []topology.Switch{{Name: "leaf-1", Nodes: first}, {Name: "ib2", Nodes: second}}, []string{list("ib2", second), list("leaf-1", first), "spine-1  ib2,leaf-1"}},
		{"labels give its name to a spine", []topology.Switch{{Name: "spine-1", Nodes: first}}, []string{list("leaf-1", first), list("leaf-2", second), "spine-1  leaf-1,leaf-2"}},
		{"nodes called it otherwise before", []topology.Switch{{Name: "ib1", Nodes: first, Value: "leaf-9"}}, []string{list("ib1", nil), list("leaf-1", first), list("leaf-2", second), "spine-1  leaf-1,leaf-2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := mustPlan(t, facts, inFile(nil, tt.switches), short)
			if diff := cmp.Diff(tt.want, lines(plan)[1:]); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			away := slices.Clone(facts)
			for i := range away {
				away[i] = below(away[i].SlurmName)
			}
			empty := mustPlan(t, facts[4:], previous(mustPlan(t, away, previous(plan), short)), short)
			if diff := cmp.Diff(tt.want, lines(mustPlan(t, facts, previous(empty), short))[1:]); diff != "" {
				t.Errorf("when the nodes of a leaf are back (-want +got):\n%s", diff)
			}
		})
	}
}
