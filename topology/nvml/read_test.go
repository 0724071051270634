//go:build cgo

package nvml

import (
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestFabricFrom(t *testing.T) {
	uuid := [16]uint8{1}
	tests := []struct {
		state, health uint8
		status        nvml.Return
		want          topology.Fabric
	}{
		{0, 0, 0, topology.Fabric{State: topology.FabricNotSupported}},
		{1, 0, 0, topology.Fabric{State: topology.FabricNotStarted}},
		{2, 2, nvml.ERROR_UNKNOWN, topology.Fabric{State: topology.FabricInProgress}},
		{3, 0, 0, topology.Fabric{State: topology.FabricCompleted}},
		{3, 1, 0, topology.Fabric{State: topology.FabricCompleted, Health: topology.HealthHealthy}},
		{3, 2, 0, topology.Fabric{State: topology.FabricCompleted, Health: topology.HealthUnhealthy}},
		{3, 3, 0, topology.Fabric{State: topology.FabricCompleted, Health: topology.HealthLimitedCapacity}},
		{3, 9, 0, topology.Fabric{State: topology.FabricCompleted}},
		{3, 0, nvml.ERROR_UNKNOWN, topology.Fabric{State: topology.FabricCompleted, Status: "UNKNOWN"}},
		{3, 0, nvml.ERROR_NOT_READY, topology.Fabric{State: topology.FabricCompleted, Status: "NOT_READY"}},
		{3, 0, 500, topology.Fabric{State: topology.FabricCompleted, Status: "NVML error 500"}},
	}
	for _, tt := range tests {
		tt.want.ClusterUUID, tt.want.CliqueID = uuid, 7
		got, err := fabricFrom(&nvml.GpuFabricInfo_v3{ClusterUuid: uuid, CliqueId: 7, State: tt.state, Status: uint32(tt.status), HealthSummary: tt.health})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("state %d health %d (-want +got):\n%s", tt.state, tt.health, diff)
		}
	}
	if f, err := fabricFrom(&nvml.GpuFabricInfo_v3{State: 4}); err == nil {
		t.Errorf("a state that NVML's header does not have is taken for %q", f.State)
	}
}

func TestChassis(t *testing.T) {
	tests := []struct{ name, raw, serial, guid string }{
		{"serial number", "1820123456789\x00\x00\x00", "1820123456789", ""},
		{"none", strings.Repeat("\x00", 16), "", ""},
		{"GUID", "\x00\x01\xfe\xff-3456789\x00\x00\x00\x00", "", "0001feff2d3334353637383900000000"},
		{"GUID of letters but one", "182012345678\x80\x00\x00\x00", "", "31383230313233343536373880000000"},
	}
	for _, tt := range tests {
		if serial, guid := chassis([16]uint8([]byte(tt.raw))); serial != tt.serial || guid != tt.guid {
			t.Errorf("%s: %q, %q, want %q, %q", tt.name, serial, guid, tt.serial, tt.guid)
		}
	}
}

func TestCPUList(t *testing.T) {
	tests := []struct {
		words []uint
		want  string
	}{
		{nil, ""},
		{make([]uint, 512), ""},
		{[]uint{1}, "0"},
		{[]uint{0xf0f}, "0-3,8-11"},
		{[]uint{1 << 63, 1, 0}, "63-64"},
		{[]uint{^uint(0), ^uint(0)}, "0-127"},
		{append(make([]uint, 40), 1<<5), "2565"},
	}
	for _, tt := range tests {
		if got := cpuList(tt.words); got != tt.want {
			t.Errorf("%x: %q, want %q", tt.words, got, tt.want)
		}
	}
}
