package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// TestXidOf holds the table against NVIDIA's catalogue: each number has the class of its
// immediate action.
func TestXidOf(t *testing.T) {
	want := map[topology.XidClass]string{
		topology.XidIgnore:      "14 37 38 43 44 63 66 67 92 93 106 107 108 121 137 141 152 153 154 157 160 161 162 163 164 165",
		topology.XidApplication: "8 11 13 25 31 32 39 40 41 60 68 69 70 71 72 75 76 77 80 82 83 84 85 86 88 89 94 96 97 98 99 100 101 102 103 104 105 126 127 128 129 130 131 132 133 134 135 139",
		topology.XidReset:       "46 62 64 95 109 110 119 120 136 140 143 155 156 158",
		topology.XidCritical:    "48 54 79 142 151",
	}
	got := map[topology.XidClass]string{}
	for code := range 1000 {
		x := topology.XidOf(code)
		if x.Code != code {
			t.Errorf("%d: code %d", code, x.Code)
		}
		if (x.Action == "") != (x.Class == topology.XidIgnore) {
			t.Errorf("%d: class %s, action %q", code, x.Class, x.Action)
		}
		if x.Class != topology.XidLook {
			got[x.Class] = strings.TrimSpace(got[x.Class] + fmt.Sprint(" ", code))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	for code, name := range map[int]string{45: "cleanup of a program, and no error before it", 74: "NVLink error", 145: "NVLink error", 171: "", 999: ""} {
		if x := topology.XidOf(code); x.Class != topology.XidLook || x.Name != name {
			t.Errorf("%d: %+v", code, x)
		}
	}
}

func problems(n *topology.Node) (out []string) {
	for _, p := range n.Problems {
		out = append(out, p.String())
	}
	return out
}

func TestAddXids(t *testing.T) {
	n := &topology.Node{GPUs: []topology.GPU{{UUID: "GPU-a"}, {UUID: "GPU-b"}}, Problems: []topology.Finding{{Reason: "FactUnreadable"}}}
	n.AddXids("GPU-b", 119, 79)
	n.AddXids("GPU-b", 13, 79) // a program's own, and one known already
	n.AddXids("GPU-lost", 79)
	n.Problems = append(n.Problems, topology.Finding{Reason: "GPULost"})
	n.AddXids("GPU-a", 48, 145)
	if diff := cmp.Diff([][]int{{48, 145}, {13, 79, 119}}, [][]int{n.GPUs[0].Xids, n.GPUs[1].Xids}); diff != "" {
		t.Errorf("Xids (-want +got):\n%s", diff)
	}
	want := []string{"FactUnreadable: ", "GPULost: ",
		"XidCritical: GPU GPU-a had Xid 48, double bit ECC error: drain the node and reset the GPU; if it comes again, have the GPU exchanged",
		"XidLook: GPU GPU-a had Xid 145, NVLink error: look at dmesg and NVIDIA's Xid catalogue",
		"XidCritical: GPU GPU-b had Xid 79, GPU has fallen off the bus: drain the node and restart the machine",
		"XidCritical: GPU GPU-b had Xid 119, GSP does not answer: drain the node and reset the GPU",
		"XidCritical: GPU GPU-lost had Xid 79, GPU has fallen off the bus: drain the node and restart the machine"}
	if diff := cmp.Diff(want, problems(n)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestXidsOfPrograms: Xids that ask for nothing, and those of programs, are kept and are no
// problem. Xid 45 asks people to look only if it is the GPU's only Xid.
func TestXidsOfPrograms(t *testing.T) {
	for _, tt := range []struct {
		name    string
		steps   [][]int
		problem string
	}{
		{"a program's", [][]int{{31}, {94}}, ""},
		{"a peer of a job that crashed", [][]int{{137, 108}}, ""},
		{"cleanup alone", [][]int{{45}}, "XidLook: GPU GPU-a had Xid 45, cleanup of a program, and no error before it: look at dmesg and NVIDIA's Xid catalogue"},
		{"cleanup before its reason is known", [][]int{{45}, {13}}, ""},
		{"unknown", [][]int{{999}}, "XidLook: GPU GPU-a had Xid 999, which Quoin does not know: look at dmesg and NVIDIA's Xid catalogue"},
	} {
		n := &topology.Node{GPUs: []topology.GPU{{UUID: "GPU-a"}}}
		for _, codes := range tt.steps {
			n.AddXids("GPU-a", codes...)
		}
		if got := strings.Join(problems(n), "\n"); got != tt.problem {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.problem)
		}
		all := slices.Sorted(slices.Values(slices.Concat(tt.steps...)))
		if diff := cmp.Diff(all, n.GPUs[0].Xids); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
