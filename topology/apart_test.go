package topology

import (
	"slices"
	"strings"
	"testing"
)

func TestApart(t *testing.T) {
	of := func(name, fabric string, base int, blocks ...[]string) Topology {
		out := Topology{Name: name, Kind: KindBlock, Fabric: fabric, Sizes: []int{base}}
		for _, nodes := range blocks {
			out.Blocks = append(out.Blocks, Block{Nodes: nodes})
		}
		return out
	}
	two, three := []string{"a1", "a2"}, []string{"b1", "b2", "b3"}
	large, small, other := of("nvl-3", "", 3, three, three), of("nvl-2", "", 2, two), of("nvl-x", "x", 2, two)
	tree := Topology{Name: FabricTopology, Kind: KindTree, Switches: []Switch{{Name: "s", Nodes: two}}}
	for name, tt := range map[string]struct {
		of   []Topology
		want string
	}{
		"none":               {nil, ""},
		"one, beside a tree": {[]Topology{large, tree}, ""},
		"one without nodes":  {[]Topology{large, of("nvl-9", "", 9, nil)}, ""},
		"two sizes":          {[]Topology{large, small, tree}, "no job that Slurm places by blocks runs across nvl-3 (6 nodes) and nvl-2 (2 nodes): baseBlockSize: 2, without sizeClasses, puts racks of all sizes into one topology"},
		"two fabrics":        {[]Topology{large, other}, "no job that Slurm places by blocks runs across nvl-3 (6 nodes) and nvl-x (2 nodes): rootSwitch joins fabrics, if one switch is above them"},
		"two sizes, two fabrics": {[]Topology{large, small, other}, "no job that Slurm places by blocks runs across nvl-3 (6 nodes), nvl-2 (2 nodes) and nvl-x (2 nodes): " +
			"baseBlockSize: 2, without sizeClasses, puts racks of all sizes into one topology; rootSwitch joins fabrics, if one switch is above them"},
		"many": {slices.Repeat([]Topology{large}, 9), "no job that Slurm places by blocks runs across " + strings.Repeat("nvl-3 (6 nodes), ", 5) + "nvl-3 (6 nodes) and 3 more: baseBlockSize: 3, without sizeClasses, puts racks of all sizes into one topology"},
	} {
		if got := Apart(tt.of); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}
