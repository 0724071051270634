package nodeagent

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// TestGPUMissing has agents, one after the other, read a machine whose GPUs go and come. What the
// report says is missing outlives an agent and a boot.
func TestGPUMissing(t *testing.T) {
	gpu := func(uuid, address string) topology.GPU { return topology.GPU{UUID: uuid, PCIBusID: address} }
	a, b, c := gpu("GPU-a", "00000000:0A:00.0"), gpu("GPU-b", "00000000:0B:00.0"), gpu("GPU-c", "")
	exchanged, moved := gpu("GPU-d", "00000000:0B:00.0"), gpu("GPU-b", "00000000:1B:00.0")
	boot := func(id string, gpus ...topology.GPU) *topology.Node {
		return &topology.Node{Name: "n1", BootID: id, GPUs: gpus}
	}
	for _, tt := range []struct {
		name  string
		reads []*topology.Node // nil: the agent starts again
		want  string
	}{
		{"all there", []*topology.Node{boot("1", a, b), nil, boot("2", a, b)}, ""},
		{"one fewer in this boot", []*topology.Node{boot("1", a, b), boot("1", a)}, "GPU-b 00000000:0B:00.0"},
		{"one fewer after a boot", []*topology.Node{boot("1", a, b), nil, boot("2", a)}, "GPU-b 00000000:0B:00.0"},
		{"for three boots", []*topology.Node{boot("1", a, b), nil, boot("2", a), nil, boot("3", a)}, "GPU-b 00000000:0B:00.0"},
		{"none is left", []*topology.Node{boot("1", a, b), nil, boot("2")}, "GPU-a 00000000:0A:00.0, GPU-b 00000000:0B:00.0"},
		{"an address that was never read", []*topology.Node{boot("1", a, c), nil, boot("2", a)}, "GPU-c unknown"},
		{"it is back", []*topology.Node{boot("1", a, b), nil, boot("2", a), nil, boot("2", a, b)}, ""},
		{"another one in its place", []*topology.Node{boot("1", a, b), nil, boot("2", a), nil, boot("3", a, exchanged)}, ""},
		{"the exchanged one is not recalled", []*topology.Node{boot("1", a, b), nil, boot("2", a, exchanged), boot("2", a, exchanged), nil, boot("3", a)}, "GPU-d 00000000:0B:00.0"},
		{"other addresses", []*topology.Node{boot("1", a, b), nil, boot("2", a, moved)}, ""},
		{"another machine with the name", []*topology.Node{boot("1", a, b), nil, boot("2", c)}, ""},
	} {
		f, stored := &facts{}, (*topology.Node)(nil)
		for _, n := range tt.reads {
			if n == nil {
				f = &facts{}
				f.takeStored(stored)
				continue
			}
			f.takeProbe(n)
			line, err := topology.EncodeReport(f.report())
			if err != nil {
				t.Fatal(err)
			}
			if stored, err = topology.ParseReport("stored", line); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, p := range stored.Problems {
			words := strings.Fields(p.Message)
			if p.Reason != topology.ReasonGPUMissing {
				t.Errorf("%s: %s", tt.name, p)
			}
			got = append(got, words[1]+" "+words[5])
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
