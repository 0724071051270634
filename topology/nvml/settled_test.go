//go:build cgo

package nvml

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/topology"
)

// The machines that become one another below, each as it differs from four T4.
var (
	withInstances = []string{"gpu 1", "mig on 7", "migdevice 0 MIG-a 1 0 NVIDIA T4 MIG 1g.5gb", "migdevice 1 MIG-b 2 0 NVIDIA T4 MIG 1g.5gb", "migdevice 2 MIG-c 5 0 NVIDIA T4 MIG 2g.10gb",
		"gpu 2", "mig off 7"}
	withOthers = []string{"gpu 1", "mig on 7", "migdevice 1 MIG-d 2 0 NVIDIA T4 MIG 4g.20gb", "migdevice 2 MIG-c 5 0 NVIDIA T4 MIG 2g.10gb",
		"gpu 2", "mig on 7", "migdevice 0 MIG-e 7 0 NVIDIA T4 MIG 1g.5gb"}
	withLost  = []string{"gpu 1", "lost"}
	withFifth = []string{"gpu 4", "uuid GPU-new", "minor 4", "pci 00000000:E0:00.0"}
	// One more before the others, so that all have another index.
	withFirst = []string{"gpu 0", "uuid GPU-new", "minor 4", "pci 00000000:01:00.0",
		"gpu 1", "uuid GPU-00000074-0000-0000-0000-000000000000", "minor 0", "pci 00000000:3B:00.0",
		"gpu 2", "uuid GPU-00000074-0000-0000-0000-000000000001", "minor 1", "pci 00000000:86:00.0",
		"gpu 3", "uuid GPU-00000074-0000-0000-0000-000000000002", "minor 2", "pci 00000000:AF:00.0",
		"gpu 4", "uuid GPU-00000074-0000-0000-0000-000000000003", "minor 3", "pci 00000000:D8:00.0"}
)

// quiet leaves events out of a test. They are registered beside the readings, and a GPU whose
// handle is another machine's would be named lost.
var quiet = []string{"call nvmlDeviceGetSupportedEventTypes error 3"}

// TestLoadedChangeAtEveryCall replaces a machine by another one at the first call of a
// reading, at the second, and so on to its end. The report describes one of the two machines.
func TestLoadedChangeAtEveryCall(t *testing.T) {
	tests := []struct {
		name          string
		before, after []string
	}{
		{"MIG instances destroyed and made", withInstances, withOthers},
		{"and back", withOthers, withInstances},
		{"MIG turned on", nil, withInstances},
		{"MIG turned off", withInstances, nil},
		{"GPU lost", nil, withLost},
		{"GPU with instances lost", withInstances, withLost},
		{"GPU back", withLost, withInstances},
		{"GPU comes", nil, withFifth},
		{"GPU goes", withFifth, nil},
		{"GPU comes before the others", nil, withFirst},
		{"GPU goes before the others", withFirst, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.before, tt.after = slices.Concat(quiet, tt.before), slices.Concat(quiet, tt.after)
			m, later := fake.New(t, "t4", tt.before...), fake.New(t, "t4", tt.after...)
			p := start(t, 550, m)
			before, after := p.read(), start(t, 550, later).read()
			if cmp.Equal(before, after) {
				t.Fatal("the two machines are one")
			}
			for call := 1; ; call++ {
				m.Change(append(tt.before, fmt.Sprintf("become %d %s", call, later.File))...)
				got := p.read()
				if cmp.Equal(before, got) {
					if call < 50 {
						t.Fatalf("call %d of a reading: nothing has changed", call)
					}
					return // the reading was over
				}
				if diff := cmp.Diff(after, got); diff != "" {
					t.Fatalf("changed at call %d (-want +got):\n%s", call, diff)
				}
			}
		})
	}
}

// TestLoadedNeverSettles has MIG instances come and go all the time: the report
// stays as it was, and says so; without one before it there is none.
func TestLoadedNeverSettles(t *testing.T) {
	m, later := fake.New(t, "t4", withInstances...), fake.New(t, "t4", withOthers...)
	p := start(t, 550, m)
	want := p.read()
	const often = 26
	later.Change(append(withOthers, fmt.Sprintf("become %d %s", often, m.File))...)
	m.Change(append(withInstances, fmt.Sprintf("become %d %s", often, later.File))...)
	want.Problems = []topology.Finding{{Reason: topology.ReasonUnsettled, Message: "layout: GPUs or MIG instances came or went while they were read; shown as before"}}
	for range 2 { // the problem is there once
		if diff := cmp.Diff(want, p.read()); diff != "" {
			t.Errorf("report (-want +got):\n%s", diff)
		}
	}
	if said := start(t, 550, m).ends(); said != "read the machine: GPUs or MIG instances came or went while they were read" {
		t.Errorf("at the start: %s", said)
	}
	m.Change(withOthers...)
	if n := p.read(); len(n.Problems) > 0 || len(n.GPUs[2].MIG) != 1 {
		t.Errorf("afterwards: %+v", n)
	}
}
