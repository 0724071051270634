package topology_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestIdleOrBusy(t *testing.T) {
	tests := []struct {
		name       string
		d          topology.DeviceUse
		idle, busy bool
	}{
		{"no program, nothing runs", topology.DeviceUse{UUID: "GPU-a", Processes: new(0), Utilization: new(0.0)}, true, false},
		{"a program that does nothing", topology.DeviceUse{UUID: "GPU-a", Processes: new(1), Utilization: new(0.0)}, false, true},
		{"a program in a namespace that the driver hides", topology.DeviceUse{UUID: "GPU-a", Processes: new(0), Utilization: new(0.01)}, false, true},
		{"programs are not known", topology.DeviceUse{UUID: "GPU-a", Utilization: new(0.0)}, false, false},
		{"programs are not known, something runs", topology.DeviceUse{UUID: "GPU-a", Utilization: new(0.3)}, false, true},
		{"utilisation is not known", topology.DeviceUse{UUID: "GPU-a", Processes: new(0)}, false, false},
		{"SM activity stands for it", topology.DeviceUse{UUID: "GPU-a", Processes: new(0), SMActivity: new(0.0)}, true, false},
		{"SM activity that rounds to nothing", topology.DeviceUse{UUID: "GPU-a", Processes: new(0), Utilization: new(0.0), SMActivity: new(0.0049)}, true, false},
		{"SM activity alone", topology.DeviceUse{UUID: "GPU-a", Processes: new(0), SMActivity: new(0.005)}, false, true},
		{"instance without a program", topology.DeviceUse{UUID: "MIG-a", Processes: new(0)}, true, false},
		{"instance with one", topology.DeviceUse{UUID: "MIG-a", Processes: new(2)}, false, true},
		{"instance of which nothing is known", topology.DeviceUse{UUID: "MIG-a"}, false, false},
		{"nothing is known", topology.DeviceUse{UUID: "GPU-a", MemoryUsed: new(uint64(1 << 30)), Power: new(300.0)}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.d.Idle() != tt.idle || tt.d.Busy() != tt.busy {
				t.Errorf("idle %t, busy %t: want %t, %t", tt.d.Idle(), tt.d.Busy(), tt.idle, tt.busy)
			}
		})
	}
}

func TestSampleLine(t *testing.T) {
	s := topology.Sample{Devices: []topology.DeviceUse{
		{UUID: "GPU-a", Utilization: new(0.5), SMActivity: new(0.25), MemoryUsed: new(uint64(1 << 30)), MemoryTotal: new(uint64(80 << 30)), Power: new(350.5), Energy: new(1e9), Processes: new(2)},
		{UUID: "MIG-b", MemoryUsed: new(uint64(0)), Processes: new(0)},
		{UUID: "GPU-c"},
	}}
	line, err := topology.EncodeSample(s)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"kind":"Sample","devices":[{"uuid":"GPU-a","utilization":0.5,`; !strings.HasPrefix(string(line), want) || bytes.ContainsRune(line, '\n') || !topology.IsSample(line) {
		t.Errorf("line %s\nwant one that begins with %s", line, want)
	}
	got, err := topology.ParseSample(line)
	if diff := cmp.Diff(s, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if empty, err := topology.EncodeSample(topology.Sample{}); string(empty) != `{"kind":"Sample","devices":[]}` || err != nil {
		t.Errorf("%s, %v", empty, err)
	}
	report, err := topology.EncodeReport(&topology.Node{Name: "n"})
	if err != nil || topology.IsSample(report) {
		t.Errorf("a report is taken for a sample: %s, %v", report, err)
	}
}

func TestBadSamples(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"Sample","devices":[{"uuid":"x"}]}`:                                    `devices[0].uuid "x": want GPU-`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a"},{"uuid":"GPU-a"}]}`:               `devices[1].uuid "GPU-a": stands twice`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","utilization":1.01}]}`:             `utilization 1.01: want 0 to 1`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","smActivity":-0.1}]}`:              `smActivity -0.1: want 0 to 1`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","power":1e9}]}`:                    `power 1e+09: want 0 to 1e+06`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","energy":-1}]}`:                    `energy -1`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","processes":-1}]}`:                 `processes -1`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","temperature":1}]}`:                `unknown field "temperature"`,
		`{"kind":"NodeReport","devices":[]}`:                                            `kind "NodeReport": want "Sample"`,
		`{"kind":"Sample","devices":[]}{}`:                                              `text after its end`,
		`{"kind":"Sample"`:                                                              `unexpected EOF`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-` + strings.Repeat("a", 100) + `"}]}`: `want GPU-`,
	} {
		if _, err := topology.ParseSample([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v, want %q", text, err, want)
		}
	}
	if _, err := topology.EncodeSample(topology.Sample{Devices: []topology.DeviceUse{{UUID: "GPU-a", Power: new(math.NaN())}}}); err == nil {
		t.Error("what is no number was encoded")
	}
}

func FuzzParseSample(f *testing.F) {
	f.Add([]byte(`{"kind":"Sample","devices":[{"uuid":"GPU-a","utilization":0.5,"memoryUsed":1,"energy":1e300,"processes":3},{"uuid":"MIG-GPU-b/1/0"}]}`))
	f.Add([]byte(`{"kind":"Sample","devices":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := topology.ParseSample(data)
		if err != nil {
			return
		}
		line, err := topology.EncodeSample(s)
		if err != nil || !topology.IsSample(line) {
			t.Fatalf("what was read cannot be written: %v: %s", err, line)
		}
		again, err := topology.ParseSample(line)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := topology.EncodeSample(again); err != nil || !bytes.Equal(line, twice) {
			t.Fatalf("%s\nthen\n%s\n%v", line, twice, err)
		}
	})
}
