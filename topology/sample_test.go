package topology_test

import (
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

func TestIsDeviceUUID(t *testing.T) {
	for text, want := range map[string]bool{
		"GPU-8a61c302-0000-0045-0000-0000000000ff":         true,
		"MIG-GPU-8a61c302-0000-0045-0000-0000000000ff/1/0": true,
		"GPU-a": true, "GPU-": false, "NIC-a": false, "GPU-a b": false, "GPU-a\n": false, "GPU-" + strings.Repeat("a", 92): true, "GPU-" + strings.Repeat("a", 93): false,
	} {
		if topology.IsDeviceUUID(text) != want {
			t.Errorf("%q: %t, want %t", text, !want, want)
		}
	}
}

// TestWithout takes away a program that is somebody else's.
func TestWithout(t *testing.T) {
	gib := func(n uint64) *uint64 { return new(n << 30) }
	for _, tt := range []struct {
		name       string
		use        topology.DeviceUse
		program    topology.Program
		want       topology.DeviceUse
		idle, busy bool
	}{
		{"it was the only one", topology.DeviceUse{Processes: new(1), Utilization: new(0.9), SMActivity: new(0.5), MemoryUsed: gib(70)}, topology.Program{PID: 7, Memory: gib(69)},
			topology.DeviceUse{Processes: new(0), Utilization: new(0.0), SMActivity: new(0.0), MemoryUsed: gib(1)}, true, false},
		{"there is another one", topology.DeviceUse{Processes: new(2), Utilization: new(0.9), MemoryUsed: gib(70)}, topology.Program{PID: 7, Memory: gib(30)},
			topology.DeviceUse{Processes: new(1), Utilization: new(0.9), MemoryUsed: gib(40)}, false, true},
		{"its memory is not known", topology.DeviceUse{Processes: new(1), Utilization: new(0.0), MemoryUsed: gib(70)}, topology.Program{PID: 7},
			topology.DeviceUse{Processes: new(0), Utilization: new(0.0)}, true, false},
		{"the device tells little", topology.DeviceUse{Processes: new(1)}, topology.Program{PID: 7, Memory: gib(1)}, topology.DeviceUse{Processes: new(0)}, false, false},
		{"more memory than all", topology.DeviceUse{Processes: new(1), MemoryUsed: gib(1)}, topology.Program{PID: 7, Memory: gib(2)}, topology.DeviceUse{Processes: new(0), MemoryUsed: gib(0)}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.use
			got.Without(tt.program)
			if diff := cmp.Diff(tt.want, got); diff != "" || got.Idle() != tt.idle || got.Busy() != tt.busy {
				t.Errorf("idle %t, busy %t, want %t, %t (-want +got):\n%s", got.Idle(), got.Busy(), tt.idle, tt.busy, diff)
			}
		})
	}
}
