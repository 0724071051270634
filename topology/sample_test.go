package topology_test

import (
	"strings"
	"testing"

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
