package division_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement/division"
)

// published returns a rack of a topology that was published with the base.
func published(in string, base, size int, fabric string) division.Rack {
	return division.Rack{Fabric: fabric, Size: size, Nodes: size, Published: in, Base: base}
}

// fresh returns racks of these sizes that no file has.
func fresh(fabric string, sizes ...int) []division.Rack {
	var racks []division.Rack
	for _, n := range sizes {
		racks = append(racks, division.Rack{Fabric: fabric, Size: n, Nodes: n})
	}
	return racks
}

// text writes every part with its base and the indices of its racks.
func text(parts []division.Part) string {
	var out []string
	for _, p := range parts {
		out = append(out, fmt.Sprintf("%s[%d]%s %v", p.Name, p.Base, p.Fabric, p.Racks))
	}
	return strings.Join(out, "; ")
}

func TestMake(t *testing.T) {
	nvl := division.Rules{Kind: "nvl"}
	classes := []topology.Topology{{Name: "nvl-18", Sizes: []int{18}}, {Name: "nvl-9", Sizes: []int{9}}}
	fabrics := []topology.Topology{{Name: "nvl-a", Fabric: "a", Sizes: []int{4}}, {Name: "nvl-b", Fabric: "b", Sizes: []int{4}}}
	inA, inB := published("nvl-a", 4, 4, "a"), published("nvl-b", 4, 4, "b")
	noRootA, noRootB := published("nvl-a", 4, 4, ""), published("nvl-b", 4, 4, "")
	large, small := published("nvl-18", 18, 18, ""), published("nvl-9", 9, 9, "")
	for _, tt := range []struct {
		name      string
		racks     []division.Rack
		published []topology.Topology
		rules     division.Rules
		want      string
	}{
		{"equal racks", fresh("", 4, 4), nil, nvl, ""},
		{"two classes", fresh("", 9, 18, 9, 18), nil, nvl, "nvl-18[18] [1 3]; nvl-9[9] [0 2]"},
		{"two thirds of the largest", fresh("", 18, 12, 18), nil, nvl, ""},
		{"one small rack", fresh("", 18, 18, 2), nil, nvl, ""},
		{"one small rack, and one topology", fresh("", 18, 18, 2), nil, division.Rules{Kind: "nvl", OneTopology: true}, "nvl-18[18] [0 1]; nvl-2[2] [2]"},
		{"classes that are set", fresh("", 10, 4, 20), nil, division.Rules{Kind: "nvl", SizeClasses: []int{18, 9}}, "nvl-18[18] [0 2]; nvl-9[9] [1]"},
		{"the base is set", fresh("", 18, 9), nil, division.Rules{Kind: "nvl", Base: 9}, ""},
		{"one class", fresh("", 18, 9), nil, division.Rules{Kind: "leaf", OneClass: true}, ""},
		{"two fabrics", slices.Concat(fresh("b", 4), fresh("a", 4, 4)), nil, nvl, "nvl-a[4]a [1 2]; nvl-b[4]b [0]"},
		{"two fabrics of two classes", slices.Concat(fresh("a", 4, 2, 2, 4), fresh("b", 2)), nil, nvl, "nvl-a-4[4]a [0 3]; nvl-a-2[2]a [1 2]; nvl-b[2]b [4]"},
		{"a fabric without a known root", slices.Concat(fresh("a", 4), fresh("", 4)), nil, nvl, "nvl-rest[4] [1]; nvl-a[4]a [0]"},
		{"a rack has lost nodes", []division.Rack{large, published("nvl-18", 18, 6, ""), small}, classes, nvl, "nvl-18[18] [0 1]; nvl-9[9] [2]"},
		{"all large racks have lost nodes", []division.Rack{published("nvl-18", 18, 9, ""), small}, classes, nvl, "nvl-18[18] [0]; nvl-9[9] [1]"},
		{"a rack has more nodes than its class", []division.Rack{large, published("nvl-9", 9, 12, ""), small}, classes, nvl, "nvl-18[18] [0 1]; nvl-9[9] [2]"},
		{"a new rack is larger than all", slices.Concat([]division.Rack{large, small}, fresh("", 30)), classes, nvl, "nvl-18[18] [0 2]; nvl-9[9] [1]"},
		{"a class has gone", []division.Rack{small}, classes, nvl, "nvl-9[9] [0]"},
		{"the published order", []division.Rack{inA, inB}, []topology.Topology{fabrics[1], fabrics[0]}, nvl, "nvl-b[4]b [1]; nvl-a[4]a [0]"},
		{"a root has another name", []division.Rack{published("nvl-a", 4, 4, "c"), inB}, fabrics, nvl, "nvl-a[4]c [0]; nvl-b[4]b [1]"},
		{"a rack moves to another fabric", []division.Rack{inA, inA, published("nvl-a", 4, 4, "b"), inB}, fabrics, nvl, "nvl-a[4]a [0 1]; nvl-b[4]b [2 3]"},
		{"no root is known now", []division.Rack{noRootA, noRootB}, fabrics, nvl, "nvl-a[4]a [0]; nvl-b[4]b [1]"},
		{"no root is known in one fabric", []division.Rack{noRootA, inB}, fabrics, nvl, "nvl-a[4]a [0]; nvl-b[4]b [1]"},
		{"a new fabric", slices.Concat([]division.Rack{inA, inB}, fresh("c", 4)), fabrics, nvl, "nvl-a[4]a [0]; nvl-b[4]b [1]; nvl-c[4]c [2]"},
		{"a name that is taken", slices.Concat([]division.Rack{published("nvl-c", 4, 4, "a"), inB}, fresh("c", 4)),
			[]topology.Topology{{Name: "nvl-c", Fabric: "a", Sizes: []int{4}}, fabrics[1]}, nvl, "nvl-c[4]a [0]; nvl-b[4]b [1]; nvl-c-x[4]c [2]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, text(division.Make(tt.racks, tt.published, tt.rules))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
