package probe

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestSampleLine(t *testing.T) {
	s := topology.Sample{Devices: []topology.DeviceUse{
		{UUID: "GPU-a", Utilization: new(0.5), SMActivity: new(0.25), MemoryUsed: new(uint64(1 << 30)), MemoryTotal: new(uint64(80 << 30)), Power: new(350.5), Energy: new(1e9), Processes: new(2)},
		{UUID: "MIG-b", MemoryUsed: new(uint64(0)), Processes: new(0)},
		{UUID: "GPU-c"},
	}}
	line, err := EncodeSample(s)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"kind":"Sample","devices":[{"uuid":"GPU-a","utilization":0.5,`; !strings.HasPrefix(string(line), want) || bytes.ContainsRune(line, '\n') || !IsSample(line) {
		t.Errorf("line %s\nwant one that begins with %s", line, want)
	}
	got, err := ParseSample(line)
	if diff := cmp.Diff(s, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if empty, err := EncodeSample(topology.Sample{}); string(empty) != `{"kind":"Sample","devices":[]}` || err != nil {
		t.Errorf("%s, %v", empty, err)
	}
	report, err := topology.EncodeReport(&topology.Node{Name: "n"})
	if err != nil || IsSample(report) {
		t.Errorf("a report is taken for a sample: %s, %v", report, err)
	}
}

func TestBadSamples(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"Sample","devices":[{"uuid":"x"}]}`:                                    `devices[0].uuid "x": want GPU-`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a"},{"uuid":"GPU-a"}]}`:               `devices[1].uuid "GPU-a": is there twice`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","utilization":1.01}]}`:             `utilization 1.01: want 0 to 1`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","smActivity":-0.1}]}`:              `smActivity -0.1: want 0 to 1`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","power":1e9}]}`:                    `power 1e+09: want 0 to 1e+06`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","energy":-1}]}`:                    `energy -1`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","processes":-1}]}`:                 `processes -1`,
		`{"kind":"NodeReport","devices":[]}`:                                            `kind "NodeReport": want "Sample"`,
		`{"kind":"Sample","devices":[]}{}`:                                              `after top-level value`,
		`{"kind":"Sample"`:                                                              `unexpected end`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-` + strings.Repeat("a", 100) + `"}]}`: `want GPU-`,
	} {
		if _, err := ParseSample([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v, want %q", text, err, want)
		}
	}
	if _, err := EncodeSample(topology.Sample{Devices: []topology.DeviceUse{{UUID: "GPU-a", Power: new(math.NaN())}}}); err == nil {
		t.Error("what is no number was encoded")
	}
}

func FuzzParseSample(f *testing.F) {
	f.Add([]byte(`{"kind":"Sample","devices":[{"uuid":"GPU-a","utilization":0.5,"memoryUsed":1,"energy":1e300,"processes":3},{"uuid":"MIG-GPU-b/1/0"}]}`))
	f.Add([]byte(`{"kind":"Sample","devices":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSample(data)
		if err != nil {
			return
		}
		line, err := EncodeSample(s)
		if err != nil || !IsSample(line) {
			t.Fatalf("what was read cannot be written: %v: %s", err, line)
		}
		again, err := ParseSample(line)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := EncodeSample(again); err != nil || !bytes.Equal(line, twice) {
			t.Fatalf("%s\nthen\n%s\n%v", line, twice, err)
		}
	})
}
