//go:build cgo

package nvml

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/topology"
)

// TestLoadedMIG reads instances in any order of slots, two of them in one GPU
// instance, and a GPU with MIG on and none.
func TestLoadedMIG(t *testing.T) {
	m := fake.New(t, "t4", "gpu 1", "mig on 7", "migdevice 0 MIG-b 5 0 NVIDIA T4 MIG 2g.10gb", "migdevice 2 MIG-d 2 1 NVIDIA T4 MIG 1c.3g.20gb",
		"migdevice 3 MIG-c 2 0 NVIDIA T4 MIG 1c.3g.20gb", "gpu 2", "mig on 7", "gpu 3", "mig off 7")
	n := start(t, 550, m).read()
	want := []topology.MIGInstance{
		{UUID: "MIG-c", Profile: "1c.3g.20gb", GPUInstanceID: 2, Capabilities: []string{"/dev/nvidia-caps/nvidia-cap156", "/dev/nvidia-caps/nvidia-cap157"}},
		{UUID: "MIG-d", Profile: "1c.3g.20gb", GPUInstanceID: 2, ComputeInstanceID: 1, Capabilities: []string{"/dev/nvidia-caps/nvidia-cap156", "/dev/nvidia-caps/nvidia-cap158"}},
		{UUID: "MIG-b", Profile: "2g.10gb", GPUInstanceID: 5, Capabilities: []string{"/dev/nvidia-caps/nvidia-cap183", "/dev/nvidia-caps/nvidia-cap184"}},
	}
	if diff := cmp.Diff(want, n.GPUs[1].MIG); diff != "" || len(n.Problems) > 0 {
		t.Errorf("problems %v, instances (-want +got):\n%s", n.Problems, diff)
	}
	for i, want := range []bool{false, false, true, false} {
		if g := n.GPUs[i]; g.MIGEmpty != want {
			t.Errorf("GPU %d: %+v, want empty %v", i, g, want)
		}
	}
}

func TestCapabilities(t *testing.T) {
	tests := []struct {
		name, list string
		want       []string
		err        string
	}{
		{"all of a machine", "config 1\nmonitor 2\ngpu1/gi5/access 183\ngpu1/gi5/ci0/access 184\ngpu1/gi5/ci2/access 186\ngpu11/gi5/access 9\n",
			[]string{"/dev/nvidia-caps/nvidia-cap183", "/dev/nvidia-caps/nvidia-cap186"}, ""},
		{"not in the list", "gpu1/gi5/access 183\n", nil, "no line gpu1/gi5/ci2/access"},
		{"garbled", "gpu1/gi5/access\n gpu1/gi5/access 183\n", nil, "no line gpu1/gi5/access"},
		{"two numbers", "gpu1/gi5/access 183 1\n", nil, `minor number "183 1"`},
		{"no number", "gpu1/gi5/access one\n", nil, `gpu1/gi5/access: minor number "one": want 0 to 1048575`},
		{"below zero", "gpu1/gi5/access -1\n", nil, `minor number "-1"`},
		{"too big", "gpu1/gi5/access 1048576\n", nil, `minor number "1048576"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := capabilitiesOf("\n"+tt.list, 1, 5, 2)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func FuzzCapability(f *testing.F) {
	f.Add("\ngpu0/gi2/access 21")
	f.Fuzz(func(t *testing.T, list string) {
		if n, err := capabilityOf(list, "gpu0/gi2/access"); err == nil && (n > maxMinor || !strings.Contains(list, "gpu0/gi2/access")) {
			t.Errorf("%q: %d", list, n)
		}
	})
}
