package probe

import (
	"bytes"
	"fmt"
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
	}, Xids: map[string]topology.XidCounts{"GPU-a": {Since: 7, Came: map[int]uint64{31: 2}}}}
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
	for want, s := range map[string]topology.Sample{`{"kind":"Sample","devices":[]}`: {Devices: []topology.DeviceUse{}}, `{"kind":"Sample"}`: {}} {
		line, err := EncodeSample(s)
		again, failed := ParseSample(line)
		if diff := cmp.Diff(s, again); string(line) != want || err != nil || failed != nil || diff != "" {
			t.Errorf("%s, %v, %v, want %s (-want +got):\n%s", line, err, failed, want, diff)
		}
	}
	report, err := topology.EncodeReport(&topology.Node{Name: "n"})
	if err != nil || IsSample(report) {
		t.Errorf("a report is taken for a sample: %s, %v", report, err)
	}
}

func TestBadSamples(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"Sample","devices":[{"uuid":"x"}]}`:                                                                   `devices[0].uuid "x": want GPU-`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a"},{"uuid":"GPU-a"}]}`:                                              `devices[1].uuid "GPU-a": is there twice`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","utilization":1.01}]}`:                                            `utilization 1.01: want 0 to 1`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","smActivity":-0.1}]}`:                                             `smActivity -0.1: want 0 to 1`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","power":1e9}]}`:                                                   `power 1e+09: want 0 to 1e+06`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","energy":-1}]}`:                                                   `energy -1`,
		`{"kind":"Sample","devices":[{"uuid":"GPU-a","processes":-1}]}`:                                                `processes -1`,
		`{"kind":"Sample","xids":{"x":{"since":1}}}`:                                                                   `uuid "x": want GPU-`,
		`{"kind":"Sample","xids":{"GPU-a":{"since":1,"came":{"x":1}}}}`:                                                `number x`,
		`{"kind":"Sample","programs":{"x":[]}}`:                                                                        `programs: uuid "x": want GPU-`,
		`{"kind":"Sample","programs":{"GPU-a":[` + strings.Repeat(`{"pid":1},`, topology.MaxPrograms) + `{"pid":2}]}}`: `programs: GPU-a: 1025: want at most 1024`,
		manyXids():                           `xids: GPU-a: 101 numbers: want at most 100`,
		`{"kind":"NodeReport","devices":[]}`: `kind "NodeReport": want "Sample"`,
		`{"kind":"Sample","devices":[]}{}`:   `after top-level value`,
		`{"kind":"Sample"`:                   `unexpected end`,
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

// manyXids is a sample with more Xids than a GPU has room for.
func manyXids() string {
	var came []string
	for code := range topology.MaxXidNumbers + 1 {
		came = append(came, fmt.Sprintf("%q:1", fmt.Sprint(code)))
	}
	return `{"kind":"Sample","xids":{"GPU-a":{"since":1,"came":{` + strings.Join(came, ",") + `}}}}`
}

func FuzzParseSample(f *testing.F) {
	f.Add([]byte(`{"kind":"Sample","devices":[{"uuid":"GPU-a","utilization":0.5,"memoryUsed":1,"energy":1e300,"processes":3},{"uuid":"MIG-GPU-b/1/0"}]}`))
	f.Add([]byte(`{"kind":"Sample","devices":null}`))
	f.Add([]byte(`{"kind":"Sample","programs":{"GPU-a":[{"pid":1,"memory":2}],"MIG-b":[]}}`))
	f.Add([]byte(`{"kind":"Sample","xids":{"GPU-a":{"since":1,"came":{"31":2}}}}`))
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
