package fabric_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// TestXidOf holds the table against NVIDIA's catalogue: each number has the class of its
// immediate action.
func TestXidOf(t *testing.T) {
	want := map[fabric.XidClass]string{
		fabric.XidIgnore:      "14 37 38 43 44 63 66 67 92 93 106 107 108 121 137 141 152 153 154 157 160 161 162 163 164 165",
		fabric.XidApplication: "8 11 13 25 31 32 39 40 41 60 68 69 70 71 72 75 76 77 80 82 83 84 85 86 88 89 94 96 97 98 99 100 101 102 103 104 105 126 127 128 129 130 131 132 133 134 135 139",
		fabric.XidReset:       "46 62 64 95 109 110 119 120 136 140 143 155 156 158",
		fabric.XidCritical:    "48 54 79 142 151",
	}
	got := map[fabric.XidClass]string{}
	for code := range 1000 {
		x := fabric.XidOf(code)
		if x.Code != code {
			t.Errorf("%d: code %d", code, x.Code)
		}
		if (x.Action == "") != (x.Class == fabric.XidIgnore) {
			t.Errorf("%d: class %s, action %q", code, x.Class, x.Action)
		}
		if x.Class != fabric.XidLook {
			got[x.Class] = strings.TrimSpace(got[x.Class] + fmt.Sprint(" ", code))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	for code, name := range map[int]string{45: "cleanup of a program, and no error before it", 74: "NVLink error", 145: "NVLink error", 171: "", 999: ""} {
		if x := fabric.XidOf(code); x.Class != fabric.XidLook || x.Name != name {
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

// TestXids shows the Xids of GPUs that are there, of one that is lost, and of one that comes back.
func TestXids(t *testing.T) {
	var xids fabric.Xids
	xids.Add("GPU-b", 119, 79)
	xids.Add("GPU-b", 13, 79) // a program's own, and one known already
	xids.Add("GPU-lost", 79)
	xids.Add("GPU-a", 48, 145)
	fresh := func() *topology.Node {
		return &topology.Node{GPUs: []topology.GPU{{UUID: "GPU-a"}, {UUID: "GPU-b"}, {UUID: "GPU-c"}}, Problems: []topology.Finding{{Reason: "FactUnreadable"}, {Reason: "GPULost"}}}
	}
	n := fresh()
	xids.Show(n)
	codes := func() [][]int { return [][]int{n.GPUs[0].Xids, n.GPUs[1].Xids, n.GPUs[2].Xids} }
	if diff := cmp.Diff([][]int{{48, 145}, {13, 79, 119}, nil}, codes()); diff != "" {
		t.Errorf("Xids (-want +got):\n%s", diff)
	}
	const look = "XidLook: GPU GPU-a had Xid 145, NVLink error: look at dmesg and NVIDIA's Xid catalogue"
	want := []string{
		"XidCritical: GPU GPU-a had Xid 48, double bit ECC error: drain the node and reset the GPU; if it comes again, have the GPU exchanged",
		"XidCritical: GPU GPU-b had Xid 79, GPU has fallen off the bus: drain the node and restart the machine",
		"XidCritical: GPU GPU-b had Xid 119, GSP does not answer: drain the node and reset the GPU",
		"XidCritical: GPU GPU-lost had Xid 79, GPU has fallen off the bus: drain the node and restart the machine",
		"FactUnreadable: ", "GPULost: ", look}
	if diff := cmp.Diff(want, problems(n)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}

	var recalled fabric.Xids // by another process, from the report
	recalled.Take(n)
	n = fresh()
	n.GPUs[2].UUID = "GPU-lost" // it is back
	recalled.Show(n)
	if diff := cmp.Diff([][]int{{48, 145}, {13, 79, 119}, {79}}, codes()); diff != "" {
		t.Errorf("recalled Xids (-want +got):\n%s", diff)
	}
	again := fresh()
	again.GPUs[2].UUID = "GPU-lost"
	again.Problems = append(again.Problems, topology.Finding{Reason: "FactsStale"})
	recalled.Take(n)
	recalled.Show(again)
	if diff := cmp.Diff(append(want[:6:6], "FactsStale: ", look), problems(again)); diff != "" {
		t.Errorf("problems once more (-want +got):\n%s", diff)
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
		{"the recovery action changed", [][]int{{154}}, ""},
		{"cleanup alone", [][]int{{45}}, "XidLook: GPU GPU-a had Xid 45, cleanup of a program, and no error before it: look at dmesg and NVIDIA's Xid catalogue"},
		{"cleanup before its reason is known", [][]int{{45}, {13}}, ""},
		{"unknown", [][]int{{999}}, "XidLook: GPU GPU-a had Xid 999, which Quoin does not know: look at dmesg and NVIDIA's Xid catalogue"},
	} {
		n := &topology.Node{GPUs: []topology.GPU{{UUID: "GPU-a"}}}
		var xids fabric.Xids
		for _, codes := range tt.steps {
			xids.Take(n)
			xids.Add("GPU-a", codes...)
			xids.Show(n)
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

func TestRecovery(t *testing.T) {
	want := map[uint64]string{
		0: "",
		1: "RecoveryNeeded: GPU GPU-a has NVML's recovery action resetGPU: drain the node and reset the GPU",
		2: "RecoveryNeeded: GPU GPU-a has NVML's recovery action rebootNode: drain the node and restart the machine",
		3: "RecoveryAdvised: GPU GPU-a has NVML's recovery action drainP2P: end the programs that use the memory of several GPUs",
		4: "RecoveryNeeded: GPU GPU-a has NVML's recovery action drainP2PAndResetGPU: end the programs that use the memory of several GPUs, and reset the GPU",
		5: "RecoveryAdvised: GPU GPU-a has NVML's recovery action recoverIMEXDomain: end the jobs of the IMEX domain, and restart its daemons",
		6: "RecoveryNeeded: GPU GPU-a has NVML's recovery action resetBus: drain the node and reset the PCIe bus of the GPU",
		7: "RecoveryNeeded: GPU GPU-a has NVML's recovery action rebootSystem: drain the node and restart the machine",
		8: "RecoveryAdvised: GPU GPU-a has NVML's recovery action 8: look at dmesg and NVIDIA's Xid catalogue",
	}
	for number, want := range want {
		n := &topology.Node{GPUs: []topology.GPU{{UUID: "GPU-a", Recovery: fabric.RecoveryOf(number)}, {UUID: "GPU-b"}}}
		var xids fabric.Xids
		for range 2 { // a second time changes nothing
			xids.Take(n)
			xids.Show(n)
		}
		if got := strings.Join(problems(n), "\n"); got != want {
			t.Errorf("%d: %s\nwant %s", number, got, want)
		}
	}
}

// TestXidsAfterReset: the Xids of a GPU end when NVML takes back that the GPU needs a recovery.
// Each step is what a reading says of the GPU; a gap is a reading that lacks the GPU. With "new"
// another process reads on, and knows the last report alone.
func TestXidsAfterReset(t *testing.T) {
	const gap = "gap"
	type step struct {
		recovery string
		codes    []int // that come with the reading
		more     string
		want     []int
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"reset", []step{{"none", nil, "", nil}, {"resetGPU", []int{31, 119}, "", []int{31, 119}}, {"none", nil, "new", nil}, {"none", nil, "new", nil}}},
		{"reset seen by one process", []step{{"resetGPU", []int{119}, "", []int{119}}, {"none", nil, "", nil}}},
		{"another fault after the reset", []step{{"resetGPU", []int{119}, "", []int{119}}, {"none", nil, "new", nil}, {"resetGPU", []int{95}, "", []int{95}}, {"resetGPU", nil, "new", []int{95}}}},
		{"a fault as soon as the GPU is back", []step{{"resetGPU", []int{119}, "", []int{119}}, {"none", []int{95}, "new", []int{95}}}},
		{"read again after the reset", []step{{"drainP2PAndResetGPU", []int{119}, "", []int{119}}, {"", nil, "", []int{119}}, {"", nil, gap, []int{119}}, {"none", nil, "", nil}}},
		{"the driver does not say", []step{{"", []int{119}, "", []int{119}}, {"", nil, "new", []int{119}}}},
		{"the driver asked for nothing", []step{{"none", []int{119}, "", []int{119}}, {"none", nil, "new", []int{119}}}},
		{"less than a reset", []step{{"drainP2P", []int{119}, "", []int{119}}, {"none", nil, "new", []int{119}}}},
		{"a new driver says it first", []step{{"", []int{119}, "", []int{119}}, {"none", nil, "new", []int{119}}}},
		{"lost, and another process", []step{{"", []int{79}, "", []int{79}}, {"", nil, gap, []int{79}}, {"", nil, gap + "new", []int{79}}, {"none", nil, "new", []int{79}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var xids fabric.Xids
			last := &topology.Node{}
			for i, s := range tt.steps {
				n := &topology.Node{GPUs: []topology.GPU{{UUID: "GPU-a", Recovery: s.recovery, Xids: s.codes}}}
				if strings.HasPrefix(s.more, gap) {
					n.GPUs = nil
				}
				if strings.HasSuffix(s.more, "new") {
					xids = fabric.Xids{}
					xids.Take(n)
					xids.Recall(last, n)
				} else {
					xids.Take(n)
				}
				xids.Show(n)
				if n.GPUs != nil {
					if diff := cmp.Diff(s.want, n.GPUs[0].Xids); diff != "" {
						t.Errorf("step %d (-want +got):\n%s", i, diff)
					}
				}
				critical := strings.Contains(strings.Join(problems(n), "\n"), "XidCritical: GPU GPU-a")
				if critical != (s.want != nil) {
					t.Errorf("step %d: problems %v", i, problems(n))
				}
				last = n
			}
		})
	}
}
