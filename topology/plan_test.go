package topology_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

// planned is a plan of two block topologies of one kind and a tree. The old tree and the blocks
// of leaves are on their way out of the file.
func planned() *topology.Plan {
	return &topology.Plan{Topologies: []topology.Topology{
		{Name: "nvl-18", Kind: "block", Fabric: "a", Sizes: []int{18, 36}, Blocks: []topology.Block{{Name: "b1", Nodes: hosts.In("n[1-2]")}, {Name: "b2"}}},
		{Name: "nvl-9", Default: true, Kind: "block", Fabric: "a", Sizes: []int{9}, Blocks: []topology.Block{{Name: "b3", Nodes: hosts.In("n3")}}},
		{Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "l1", Nodes: hosts.In("n[1,3-4]")}, {Name: "l2"}, {Name: "s", Children: hosts.In("l[1-2]")}}},
		{Name: "flat", Kind: "flat"},
		{Name: "leaf", Kind: "block", Sizes: []int{4}, Blocks: []topology.Block{{Name: "l1", Nodes: hosts.In("n[1-4]")}}},
		{Name: "nvl", Kind: "block", Blocks: []topology.Block{{Name: "b1", Nodes: hosts.In("n[1-9]")}}},
		{Name: "old", Kind: "tree", Switches: []topology.Switch{{Name: "l9", Nodes: hosts.In("n9")}}},
	}}
}

func TestUnits(t *testing.T) {
	var got []string
	for _, u := range planned().Units() {
		got = append(got, strings.TrimSpace(u.Kind+" "+u.String()+" "+strings.Join(u.Nodes, ",")))
	}
	want := []string{"block nvl-18:b1 n1,n2", "block nvl-18:b2", "block nvl-9:b3 n3", "tree fabric:l1 n1,n3,n4", "tree fabric:l2",
		"block leaf:l1 n1,n2,n3,n4", "block nvl:b1 n1,n2,n3,n4,n5,n6,n7,n8,n9", "tree old:l9 n9"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlaces(t *testing.T) {
	want := map[string]topology.Place{"n1": {Block: "b1", Leaf: "l1"}, "n2": {Block: "b1"}, "n3": {Block: "b3", Leaf: "l1"}, "n4": {Leaf: "l1"}}
	if diff := cmp.Diff(want, planned().Places()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := new(topology.Plan).Places(); got == nil || len(got) != 0 {
		t.Errorf("of an empty plan: %v", got)
	}
}

func TestSpecsOf(t *testing.T) {
	want := map[string]string{"n1": "nvl-18:b1,fabric:l1", "n2": "nvl-18:b1", "n3": "nvl-9:b3,fabric:l1", "n4": "fabric:l1"}
	if diff := cmp.Diff(want, topology.SpecsOf(planned().Own())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSpecUnits(t *testing.T) {
	for spec, want := range map[string][]string{
		"":                                   nil,
		"fabric":                             {"fabric"},
		"nvl:nvl-8a61c302-1,fabric:leaf-7":   {"nvl:nvl-8a61c302-1", "fabric:leaf-7"},
		"fabric:core:spine-1:leaf-7,other:x": {"fabric:leaf-7", "other:x"},
	} {
		if diff := cmp.Diff(want, slices.Collect(topology.SpecUnits(spec))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
}

// TestOwn says of several files which topologies they are about.
func TestOwn(t *testing.T) {
	for _, tt := range []struct{ name, topologies, want string }{
		{"nothing", "", ""},
		{"all parts of one kind", "nvl-18 nvl-9 fabric", "nvl-18 nvl-9 fabric"},
		{"the whole, and parts that leave", "nvl nvl-18 fabric", "nvl fabric"},
		{"parts, and the whole that leaves", "nvl-18 nvl fabric", "nvl-18 fabric"},
		{"another kind that leaves", "leaf nvl fabric flat", "leaf fabric"},
		{"a topology.conf", "default", "default"},
		{"the tree first", "fabric nvl", "fabric nvl"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &topology.Plan{}
			for name := range strings.FieldsSeq(tt.topologies) {
				kind := map[string]string{"fabric": "tree", "flat": "flat"}[name]
				if kind == "" {
					kind = "block"
				}
				p.Topologies = append(p.Topologies, topology.Topology{Name: name, Kind: kind})
			}
			var got []string
			for _, o := range p.Own() {
				got = append(got, o.Name)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfPlan(t *testing.T) {
	p, leaves := planned(), &topology.Plan{Topologies: planned().Topologies[4:5]}
	if got := p.BaseBlockSize(); got != 9 {
		t.Errorf("base %d, want that of the default topology", got)
	}
	p.Topologies[1].Default = false
	if got := p.BaseBlockSize(); got != 18 {
		t.Errorf("base %d without a default, want the first", got)
	}
	if len(p.Blocks()) != 3 || len(p.Switches()) != 3 || p.NamesLeaves() || !leaves.NamesLeaves() {
		t.Errorf("%v, %v", p.Blocks(), p.Switches())
	}
	p.Topologies[2].Source = "cables"
	if got, empty := p.SwitchSource(), new(topology.Plan); got != "cables" || empty.SwitchSource() != "" || empty.NamesLeaves() {
		t.Errorf("the tree is from %q", got)
	}
	if diff := cmp.Diff([]string{"s"}, p.InnerSwitches()); diff != "" || (*topology.Plan)(nil).InnerSwitches() != nil {
		t.Errorf("inner switches (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a"}, p.Fabrics()); diff != "" {
		t.Errorf("fabrics (-want +got):\n%s", diff)
	}
	fewer := &topology.Plan{Topologies: p.Topologies[1:]}
	if diff := cmp.Diff([]string{"nvl-18"}, fewer.LostTopologies(p)); diff != "" || p.LostTopologies(fewer) != nil || p.LostTopologies(nil) != nil {
		t.Errorf("lost topologies (-want +got):\n%s", diff)
	}
}

// TestNames reads and writes names as a host list.
func TestNames(t *testing.T) {
	text, err := json.Marshal(topology.Block{Name: "b", Nodes: hosts.In("n[3,1-2],x")})
	if want := `{"name":"b","nodes":"n[1-3],x"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v: want %s", text, err, want)
	}
	var back topology.Block
	if err := json.Unmarshal(text, &back); err != nil || cmp.Diff(topology.Names{"n1", "n2", "n3", "x"}, back.Nodes) != "" {
		t.Errorf("%v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"name":"b","nodes":"n[1-"}`), &back); err == nil || !strings.Contains(err.Error(), `read names: host list "n[1-"`) {
		t.Errorf("%v", err)
	}
}

func TestPathsAbove(t *testing.T) {
	switches := []topology.Switch{{Name: "l1"}, {Name: "l2"}, {Name: "l3"}, {Name: "s1", Children: hosts.In("l[1-2]")}, {Name: "core", Children: []string{"s1"}}}
	if diff := cmp.Diff(map[string]string{"l1": "/core/s1", "l2": "/core/s1"}, topology.PathsAbove(switches)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ring := []topology.Switch{{Name: "l"}, {Name: "a", Children: []string{"l", "b"}}, {Name: "b", Children: []string{"a"}}}
	if got := topology.PathsAbove(ring)["l"]; strings.Count(got, "/") != topology.MaxTiers {
		t.Errorf("a ring ends after %s", got)
	}
}
