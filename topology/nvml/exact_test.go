//go:build cgo

package nvml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/topology"
)

// TestLoadedAffinity reads CPU masks of one word and of many, up to the most CPUs
// that Linux has, numbered with gaps, and none.
func TestLoadedAffinity(t *testing.T) {
	lists := []string{"0", "63", "64", "0-63", "0-64", "64-127", "0-127", "128", "0-143", "36-71,108-143", "144-287", "0-511", "448-511", "0,2,4,6,511", "700-701,1023", "5,64,129,8191", "0-8191"}
	m := fake.New(t, "t4")
	p := start(t, 550, m)
	for _, list := range lists {
		m.Change("gpu 2", "cpus "+list)
		n := p.read()
		if n.GPUs[2].CPUAffinity != list || n.GPUs[1].CPUAffinity != "0-31" || len(n.Problems) > 0 {
			t.Errorf("CPUs %s, others %s, problems %v; want %s", n.GPUs[2].CPUAffinity, n.GPUs[1].CPUAffinity, n.Problems, list)
		}
	}
	m.Change("gpu 2", "cpus")
	if n := p.read(); n.GPUs[2].CPUAffinity != "" || len(n.Problems) > 0 {
		t.Errorf("an empty mask: CPUs %q, problems %v", n.GPUs[2].CPUAffinity, n.Problems)
	}
}

// TestLoadedNUMA reads memory masks. A mask of Grace has the GPUs' own memory after the memory
// of the CPUs. An empty mask is the kernel's -1.
func TestLoadedNUMA(t *testing.T) {
	tests := []struct {
		list string
		want int // -1: none
	}{{"0", 0}, {"1,20-27", 1}, {"63", 63}, {"64", 64}, {"1023", 1023}, {"", -1}}
	m := fake.New(t, "t4")
	p := start(t, 550, m)
	for _, tt := range tests {
		m.Change("gpu 2", "numa "+tt.list)
		n := p.read()
		got := -1
		if v := n.GPUs[2].NUMANode; v != nil {
			got = *v
		}
		if got != tt.want || len(n.Problems) > 0 {
			t.Errorf("nodes %q: %d, problems %v; want %d", tt.list, got, n.Problems, tt.want)
		}
	}
}

// TestLoadedLinks reads what is at the other end of NVLinks.
func TestLoadedLinks(t *testing.T) {
	const a, b = "00000000:86:00.0", "00000000:AF:00.0"
	tests := []struct {
		name       string
		statements []string
		want       topology.Links
	}{
		{"none", nil, topology.Links{}},
		{"all off", []string{"links 0-17 off"}, topology.Links{}},
		{"two GPUs, two links each", []string{"links 0-1 gpu " + a, "links 2-3 gpu " + b}, topology.Links{GPUs: []topology.LinksToGPU{{PCIBusID: a, Count: 2}, {PCIBusID: b, Count: 2}}}},
		{"of each kind, some off between", []string{"links 0 switch " + a, "links 1-2 off", "links 3 ibmnpu", "links 4 off", "links 5 unknown", "links 6 gpu " + b},
			topology.Links{Switch: 1, IBMNPU: 1, Unknown: 1, GPUs: []topology.LinksToGPU{{PCIBusID: b, Count: 1}}}},
		{"the last alone", []string{"links 0-16 off", "links 17 switch"}, topology.Links{Switch: 1}},
	}
	m := fake.New(t, "t4")
	p := start(t, 550, m)
	for _, tt := range tests {
		m.Change(append([]string{"gpu 0"}, tt.statements...)...)
		n := p.read()
		if diff := cmp.Diff(&tt.want, n.GPUs[0].Links); diff != "" || len(n.Problems) > 0 {
			t.Errorf("%s: problems %v, links (-want +got):\n%s", tt.name, n.Problems, diff)
		}
	}
}

// maskField is a field of the health mask, with the words of its values as the
// report has them, written down from NVML's manual and not from its header's names.
type maskField struct {
	name  string
	shift uint
	bits  uint
	words []string // of the values; those beyond are "" or their number
}

var maskFields = []maskField{
	{"degradedBandwidth", 0, 2, []string{"", "true", "false"}},
	{"routeRecovery", 2, 2, []string{"", "true", "false"}},
	{"routeUnhealthy", 4, 2, []string{"", "true", "false"}},
	{"accessTimeoutRecovery", 6, 2, []string{"", "true", "false"}},
	{"incorrectConfiguration", 8, 4, []string{"", "none", "systemGUID", "chassisSerial", "noPartition", "insufficientNVLinks", "incompatibleFirmware", "invalidLocation", "gpuState", "9", "10", "11", "12", "13", "14", "15"}},
	{"partitionAssigned", 12, 2, []string{"", "true", "false"}},
}

// wantHealth is what a mask says, by field.
func wantHealth(mask uint32) map[string]string {
	want := map[string]string{}
	for _, f := range maskFields {
		if v := int(mask >> f.shift % (1 << f.bits)); v < len(f.words) && f.words[v] != "" {
			want[f.name] = f.words[v]
		}
	}
	return want
}

func gotHealth(h topology.FabricHealth) map[string]string {
	got := map[string]string{}
	for name, v := range map[string]*bool{"degradedBandwidth": h.DegradedBandwidth, "routeRecovery": h.RouteRecovery, "routeUnhealthy": h.RouteUnhealthy,
		"accessTimeoutRecovery": h.AccessTimeoutRecovery, "partitionAssigned": h.PartitionAssigned} {
		if v != nil {
			got[name] = fmt.Sprint(*v)
		}
	}
	if h.IncorrectConfiguration != "" {
		got["incorrectConfiguration"] = h.IncorrectConfiguration
	}
	return got
}

// TestHealthOfEveryMask takes apart every pattern of the fields' bits, and of two
// that no field has.
func TestHealthOfEveryMask(t *testing.T) {
	for mask := range uint32(1 << 16) {
		if diff := cmp.Diff(wantHealth(mask), gotHealth(healthOf(mask))); diff != "" {
			t.Fatalf("mask %#x (-want +got):\n%s", mask, diff)
		}
	}
}

// TestLoadedHealth has the library answer each value of each field, in both forms
// that have a mask.
func TestLoadedHealth(t *testing.T) {
	for _, driver := range []int{550, 580} {
		m := fake.New(t, "gb200")
		p := start(t, driver, m)
		for _, f := range maskFields {
			for v := range uint32(1) << f.bits {
				mask := v<<f.shift | 2<<16 // and a field of the future
				m.Change("gpu 6", fmt.Sprintf("fabric completed 0 00000000-0000-0000-0000-000000000001 0 3 %#x", mask))
				n := p.read()
				if diff := cmp.Diff(wantHealth(mask), gotHealth(n.GPUs[6].Fabric.HealthFields)); diff != "" || len(n.Problems) > 0 {
					t.Errorf("driver %d, mask %#x: problems %v (-want +got):\n%s", driver, mask, n.Problems, diff)
				}
			}
		}
	}
}

// TestLoadedPlatform reads both meanings of the chassis field.
func TestLoadedPlatform(t *testing.T) {
	tests := []struct {
		statement string
		want      topology.Platform
	}{
		{"1822725100200 21 11 1", topology.Platform{ChassisSerial: "1822725100200", Slot: 21, Tray: 11, HostID: 1}},
		{"ABCDEFGHIJKLMNOP 255 0 0", topology.Platform{ChassisSerial: "ABCDEFGHIJKLMNOP", Slot: 255}},
		{"0x00 0 255 255", topology.Platform{Tray: 255, HostID: 255}},
		{"0x0001fe 3 2 1", topology.Platform{RackGUID: "0001fe" + strings.Repeat("0", 26), Slot: 3, Tray: 2, HostID: 1}},
		{"0x31383232373235313030323080 3 2 1", topology.Platform{RackGUID: "31383232373235313030323080000000", Slot: 3, Tray: 2, HostID: 1}},
	}
	m := fake.New(t, "gb200")
	p := start(t, 580, m)
	for _, tt := range tests {
		m.Change("platform " + tt.statement)
		if diff := cmp.Diff(&tt.want, p.read().Platform); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.statement, diff)
		}
	}
}
