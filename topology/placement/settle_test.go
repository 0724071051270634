package placement_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

func TestMoved(t *testing.T) {
	type sw = topology.Switch
	blocks := []topology.Block{{Name: "b1", Nodes: []string{"n1", "n2"}}, {Name: "b2", Nodes: []string{"n3"}}}
	switches := []sw{{Name: "l1", Nodes: []string{"n1", "n2"}}, {Name: "l2", Nodes: []string{"n3"}}, {Name: "s1", Children: []string{"l1"}},
		{Name: "s2", Children: []string{"l2"}}, {Name: "c1", Children: []string{"s1", "s2"}}}
	change := func(at int, s sw) []sw {
		out := slices.Clone(switches)
		out[at] = s
		return out
	}
	for name, tt := range map[string]struct {
		blocks   []topology.Block
		switches []sw
		want     string
	}{
		"nothing":                 {blocks, switches, ""},
		"no blocks":               {nil, switches, "n1 n2 n3"},
		"no switches":             {blocks, nil, "n1 n2 n3"},
		"another block":           {[]topology.Block{{Name: "b1", Nodes: []string{"n1"}}, {Name: "b2", Nodes: []string{"n2", "n3"}}}, switches, "n2"},
		"a node less":             {blocks, change(0, sw{Name: "l1", Nodes: []string{"n2"}}), "n1"},
		"no core":                 {blocks, switches[:4], "n1 n2 n3"},
		"a leaf without a parent": {blocks, change(2, sw{Name: "s1"}), "n1 n2"},
		"a spine elsewhere":       {blocks, append(change(4, sw{Name: "c1", Children: []string{"s1"}}), sw{Name: "c2", Children: []string{"s2"}}), "n3"},
		"a switch on top":         {blocks, append(slices.Clone(switches), sw{Name: "top", Children: []string{"c1"}}), ""},
		"a loop":                  {blocks, append(slices.Clone(switches), sw{Name: "s1", Children: []string{"c1"}}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, of := placement.Moved(inFile(blocks, switches).Plan, inFile(tt.blocks, tt.switches).Plan)
			if diff := cmp.Diff(strings.Fields(tt.want), got); len(got)+len(tt.want) > 0 && diff != "" || of != 3 {
				t.Errorf("of %d nodes moved (-want +got):\n%s", of, diff)
			}
		})
	}
	loop := inFile(nil, []sw{{Name: "a", Nodes: []string{"n1"}, Children: []string{"b"}}, {Name: "b", Children: []string{"a"}}})
	placement.Moved(loop.Plan, loop.Plan) // ends
}
