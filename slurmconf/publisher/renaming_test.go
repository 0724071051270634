package publisher

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/topology"
)

func TestNewNames(t *testing.T) {
	ab := map[string]string{"A": "a", "B": "b"}
	for _, tt := range []struct {
		name    string
		byPods  bool
		now     map[string]string // Node -> name
		pending string
		want    string // the nodes of block b, then of leaf l
	}{
		{"one", false, map[string]string{"A": "x", "B": "b"}, "", "x b"},
		{"none is named now", false, map[string]string{"B": "b"}, "", "a b"},
		{"two swap", false, map[string]string{"A": "b", "B": "a"}, "", "b a"},
		{"a chain", false, map[string]string{"A": "b", "B": "c"}, "", "b c"},
		{"a chain whose end stays", false, map[string]string{"A": "b"}, "", "a b"},
		{"a pod of the name waits", false, map[string]string{"A": "x", "B": "b"}, "a", "a b"},
		{"a chain that ends at a name that a pod waits for", false, map[string]string{"A": "b", "B": "x"}, "b", "a b"},
		{"pods: one is replaced", true, map[string]string{"A": "x", "B": "b"}, "", "x b"},
		{"pods: two swap", true, map[string]string{"A": "b", "B": "a"}, "", "b a"},
		{"pods: one waits, and another is on its Node", true, map[string]string{"A": "b"}, "a", "b a"},
		{"pods: one is on another Node, and that of the Node is gone", true, map[string]string{"A": "b"}, "", "b"},
		{"pods: one is on a Node that was not published", true, map[string]string{"B": "b", "C": "a"}, "", "b"},
		{"pods: both waited", true, map[string]string{"C": "a", "D": "b"}, "", ""},
		{"pods: none runs", true, nil, "", "a b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := naming{published: ab, now: tt.now, files: []string{"a", "b"}, byPods: tt.byPods, pending: map[string]bool{tt.pending: true}}
			names := s.compare()
			old := topology.Plan{Topologies: []topology.Topology{{Kind: "block", Blocks: []topology.Block{{Name: "b", Nodes: []string{"a", "b"}}}}, {Kind: "tree", Switches: []topology.Switch{{Name: "l", Nodes: []string{"a", "b"}}}}}}
			next := names.plan(&old)
			if !slices.Equal(old.Topologies[0].Blocks[0].Nodes, []string{"a", "b"}) {
				t.Errorf("what was published has changed: %v", old)
			}
			for _, got := range [][]string{next.Topologies[0].Blocks[0].Nodes, next.Topologies[1].Switches[0].Nodes} {
				if strings.Join(got, " ") != tt.want {
					t.Errorf("%v, want %s", got, tt.want)
				}
			}
			lines := slices.Sorted(maps.Keys(names.lines(map[string][]gres.Line{"a": {}, "b": {}})))
			if want := slices.Sorted(strings.FieldsSeq(tt.want)); !slices.Equal(lines, want) {
				t.Errorf("gres.conf has %v, want %v", lines, want)
			}
			if same := tt.want == "a b"; names.none() != same {
				t.Errorf("none is renamed: %t, want %t", names.none(), same)
			}
		})
	}
}
