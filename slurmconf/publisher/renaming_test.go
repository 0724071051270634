package publisher

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

func TestNewNames(t *testing.T) {
	pods, labels := complete(t, Publication{SlurmNames: "slinky:a"})[0], complete(t, Publication{SlurmNames: "label:sn"})[0]
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
		{"pods: one is replaced", true, map[string]string{"A": "x", "B": "b"}, "", "x b"},
		{"pods: two swap", true, map[string]string{"A": "b", "B": "a"}, "", "b a"},
		{"pods: one waits, and another is on its Node", true, map[string]string{"A": "b"}, "a", "b a"},
		{"pods: one is on another Node, and that of the Node is gone", true, map[string]string{"A": "b"}, "", "b"},
		{"pods: one is on a Node that was not published", true, map[string]string{"B": "b", "C": "a"}, "", "b"},
		{"pods: both waited", true, map[string]string{"C": "a", "D": "b"}, "", ""},
		{"pods: none runs", true, nil, "", "a b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &nodeHistory{pub: labels, owners: map[string]string{"a": "A", "b": "B"}}
			if tt.byPods {
				h.pub = pods
			}
			in := inputs.Inputs{Pending: map[string]bool{tt.pending: true}}
			for node, name := range tt.now {
				in.Facts = append(in.Facts, topology.Facts{Name: node, SlurmName: name})
			}
			names, all := h.assign(&in, []string{"a", "b"})
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
			if same := tt.want == "a b"; same != (len(names) == 0) || same && len(all) > 0 {
				t.Errorf("renamed are %v, %v, want none: %t", names, all, same)
			}
		})
	}
}
