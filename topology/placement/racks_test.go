package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// rack is a block with so many nodes now. published is its topology, empty for a new rack, and before its published size.
type rack struct {
	fabric, published   string
	size, nodes, before int
}

func (r *rack) domain() *domain {
	d := &domain{fabric: r.fabric, size: r.size, nodes: slices.Repeat([]*node{{Facts: new(topology.Facts)}}, r.nodes)}
	if r.published != "" {
		d.old = &oldBlock{Block: &topology.Block{Size: r.before}, topology: r.published}
	}
	return d
}

// publishedRack returns a rack of a topology that was published.
func publishedRack(in string, size int, fabric string) rack {
	return rack{fabric: fabric, size: size, nodes: size, published: in}
}

// freshRacks returns racks of these sizes that no file has.
func freshRacks(fabric string, sizes ...int) []rack {
	var racks []rack
	for _, n := range sizes {
		racks = append(racks, rack{fabric: fabric, size: n, nodes: n})
	}
	return racks
}

// partsText writes every topology with its class and the indices of its racks.
func partsText(parts []*part, racks []*domain) string {
	var out []string
	for _, p := range parts {
		var at []int
		for _, d := range p.domains {
			at = append(at, slices.Index(racks, d))
		}
		out = append(out, fmt.Sprintf("%s[%d]%s %v", p.name, p.class, p.fabric, at))
	}
	return strings.Join(out, "; ")
}

func TestDivideRacks(t *testing.T) {
	nvl := Policy{}
	classes := []topology.Topology{{Name: "nvl-18", Sizes: []int{18}}, {Name: "nvl-9", Sizes: []int{9}}}
	fabrics := []topology.Topology{{Name: "nvl-a", Fabric: "a", Sizes: []int{4}}, {Name: "nvl-b", Fabric: "b", Sizes: []int{4}}}
	inA, inB := publishedRack("nvl-a", 4, "a"), publishedRack("nvl-b", 4, "b")
	noRootA, noRootB := publishedRack("nvl-a", 4, ""), publishedRack("nvl-b", 4, "")
	large, small := publishedRack("nvl-18", 18, ""), publishedRack("nvl-9", 9, "")
	for _, tt := range []struct {
		name      string
		racks     []rack
		published []topology.Topology
		policy    Policy
		want      string
	}{
		{"equal racks", freshRacks("", 4, 4), nil, nvl, ""},
		{"large and small racks", freshRacks("", 9, 18, 9, 18), nil, nvl, ""},
		{"classes that are set", freshRacks("", 10, 4, 20), nil, Policy{SizeClasses: []int{18, 9}}, "nvl-18[18] [0 2]; nvl-9[9] [1]"},
		{"one of the classes that are set", freshRacks("", 9, 4), nil, Policy{SizeClasses: []int{18, 9}}, ""},
		{"the base is set", freshRacks("", 18, 9), nil, Policy{BaseBlockSize: 9}, ""},
		{"two fabrics", slices.Concat(freshRacks("b", 4), freshRacks("a", 4, 2)), nil, nvl, "nvl-a[0]a [1 2]; nvl-b[0]b [0]"},
		{"two fabrics of two classes", slices.Concat(freshRacks("a", 4, 2, 2, 4), freshRacks("b", 2)), nil, Policy{SizeClasses: []int{4, 2}}, "nvl-a-4[4]a [0 3]; nvl-a-2[2]a [1 2]; nvl-b[2]b [4]"},
		{"a fabric without a known root", slices.Concat(freshRacks("a", 4), freshRacks("", 4)), nil, nvl, "nvl-rest[0] [1]; nvl-a[0]a [0]"},
		{"a rack has lost nodes", []rack{large, publishedRack("nvl-18", 6, ""), small}, classes, nvl, "nvl-18[18] [0 1]; nvl-9[9] [2]"},
		{"all large racks have lost nodes", []rack{publishedRack("nvl-18", 9, ""), small}, classes, nvl, "nvl-18[18] [0]; nvl-9[9] [1]"},
		{"a rack has more nodes than its class", []rack{large, publishedRack("nvl-9", 12, ""), small}, classes, nvl, "nvl-18[18] [0 1]; nvl-9[9] [2]"},
		{"bases below the largest racks", []rack{{size: 18, nodes: 18, published: "nvl-18", before: 18}, {size: 9, nodes: 9, published: "nvl-9", before: 9}},
			[]topology.Topology{{Name: "nvl-18", Sizes: []int{16}}, {Name: "nvl-9", Sizes: []int{8}}}, nvl, "nvl-18[18] [0]; nvl-9[9] [1]"},
		{"a new rack is larger than all", slices.Concat([]rack{large, small}, freshRacks("", 30)), classes, nvl, "nvl-18[18] [0 2]; nvl-9[9] [1]"},
		{"a class has gone", []rack{small}, classes, nvl, "nvl-9[9] [0]"},
		{"the only topology is a part", []rack{small}, classes[1:], nvl, "nvl-9[9] [0]"},
		{"a class has no node now", []rack{publishedRack("nvl-18", 18, "a"), {fabric: "a", size: 9, published: "nvl-9"}}, classes, nvl, "nvl-18[18]a [0]; nvl-9[9]a [1]"},
		{"the published order", []rack{inA, inB}, []topology.Topology{fabrics[1], fabrics[0]}, nvl, "nvl-b[4]b [1]; nvl-a[4]a [0]"},
		{"a root has another name", []rack{publishedRack("nvl-a", 4, "c"), inB}, fabrics, nvl, "nvl-a[4]c [0]; nvl-b[4]b [1]"},
		{"a rack moves to another fabric", []rack{inA, inA, publishedRack("nvl-a", 4, "b"), inB}, fabrics, nvl, "nvl-a[4]a [0 1]; nvl-b[4]b [2 3]"},
		{"a rack moves to a topology that is kept", []rack{publishedRack("nvl-b", 4, "a"), inA, inB}, fabrics, Policy{met: []Choice{{Decision: Decision{Kind: TopologiesChange, Subject: "nvl-a"}, Waits: true}}}, "nvl-a[4]a [0 1]; nvl-b[4]b [2]"},
		{"no root is known now", []rack{noRootA, noRootB}, fabrics, nvl, "nvl-a[4]a [0]; nvl-b[4]b [1]"},
		{"no root is known in one fabric", []rack{noRootA, inB}, fabrics, nvl, "nvl-a[4]a [0]; nvl-b[4]b [1]"},
		{"a new fabric", slices.Concat([]rack{inA, inB}, freshRacks("c", 4)), fabrics, nvl, "nvl-a[4]a [0]; nvl-b[4]b [1]; nvl-c[0]c [2]"},
		{"a name that is taken", slices.Concat([]rack{publishedRack("nvl-c", 4, "a"), inB}, freshRacks("c", 4)),
			[]topology.Topology{{Name: "nvl-c", Fabric: "a", Sizes: []int{4}}, fabrics[1]}, nvl, "nvl-c[4]a [0]; nvl-b[4]b [1]; nvl-c-x[0]c [2]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var racks []*domain
			for i := range tt.racks {
				racks = append(racks, tt.racks[i].domain())
			}
			parts := divideRacks(racks, tt.published, &tt.policy)
			if diff := cmp.Diff(tt.want, partsText(parts, racks)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBaseChangeText says what a change means for jobs.
func TestBaseChangeText(t *testing.T) {
	for _, tt := range []struct {
		from, to int
		racks    []int
		want     string
	}{
		{9, 18, []int{18, 18, 18}, "the domains of topology nvl give base block size 18, and 9 is published. With 18, jobs of 10-18 nodes stay in one rack, and now they may use two racks. " +
			"Approve it, or set baseBlockSize: 9 to keep 9"},
		{2, 18, []int{18, 17, 17, 17}, "the domains of topology nvl give base block size 18, and 2 is published. With 18, jobs of 3-18 nodes stay in one rack, and now they may use up to 9 racks; " +
			"then jobs of 36,53-54 nodes cannot run. Approve it, or set baseBlockSize: 2 to keep 2"},
		{18, 17, []int{18, 17, 17, 17}, "the domains of topology nvl give base block size 17, and 18 is published. With 17, jobs of 18 nodes may use two racks; " +
			"now jobs of 36,53-54 nodes cannot run. Approve it, or set baseBlockSize: 18 to keep 18"},
	} {
		if diff := cmp.Diff(tt.want, new(Policy).baseChangeText("nvl", tt.from, tt.to, tt.racks)); diff != "" {
			t.Errorf("%d to %d (-want +got):\n%s", tt.from, tt.to, diff)
		}
	}
}
