//go:build cgo

package nvml

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	fake "github.com/quoin-hpc/quoin/testdata/nvml"
	"github.com/quoin-hpc/quoin/topology"
)

const gb200a = "GPU-b200b200-0000-0000-0000-000000000000"

// perLink is a count of each of so many NVLinks: zero, but for the named ones.
func perLink(links int, of map[int]int64) []int64 {
	out := make([]int64, links)
	for link, count := range of {
		out[link] = count
	}
	return out
}

// withoutXids compares counters without those of Xids.
var withoutXids = cmp.Options{cmpopts.IgnoreFields(topology.Counts{}, "Xids", "Watched"),
	cmpopts.IgnoreMapEntries(func(name, _ string) bool { return name == topology.XidsName })}

// TestLoadedCounters reads the counters of a GPU of each generation, as its fields of NVML
// say them. What it does not have is absent with the reason.
func TestLoadedCounters(t *testing.T) {
	whole := map[string]uint64{"ecc_corrected": 0, "ecc_uncorrected": 0, "pcie_replays": 0, "power_cap": 0, "sync_boost": 0, "thermal": 0, "thermal_hardware": 0, "power_brake": 0}
	with := func(values map[string]uint64) map[string]uint64 {
		out := maps.Clone(whole)
		maps.Copy(out, values)
		return out
	}
	no := func(names ...string) map[string]string {
		out := map[string]string{}
		for _, n := range names {
			out[n] = topology.NoCounter
		}
		return out
	}
	for _, tt := range []struct {
		name, machine, uuid string
		more                []string
		want                topology.Counts
	}{
		{"Hopper", "h100", h100a, []string{"gpu 0", "field 162:9 412", "field 161:3 7", "field 3 5", "field 4 1", "field 74 2500000000", "field 94 3", "field 144 1"},
			topology.Counts{Whole: with(map[string]uint64{"ecc_corrected": 5, "ecc_uncorrected": 1, "pcie_replays": 3, "power_cap": 2_500_000_000}),
				Links:       map[string]topology.LinkCounts{"nvlink_recoveries": perLink(18, map[int]int64{9: 412}), "nvlink_replays": perLink(18, map[int]int64{3: 7}), "nvlink_crc_errors": perLink(18, nil)},
				RowsPending: new(true), Absent: no("nvlink_receive_errors")}},
		{"Blackwell", "gb200", gb200a, []string{"gpu 0", "field 215:9 412", "field 208:0 1"},
			topology.Counts{Whole: whole,
				Links:       map[string]topology.LinkCounts{"nvlink_recoveries": perLink(18, map[int]int64{9: 412}), "nvlink_receive_errors": perLink(18, map[int]int64{0: 1})},
				RowsPending: new(false), Absent: no("nvlink_replays", "nvlink_crc_errors")}},
		{"an older driver has a sum of heat alone", "a100-mig", "GPU-12345678-1234-1234-1234-123456780001", []string{"gpu 1", "mig off 7", "field 75 1000000000"},
			topology.Counts{Whole: map[string]uint64{"ecc_corrected": 0, "ecc_uncorrected": 0, "pcie_replays": 0, "power_cap": 0, "sync_boost": 0, "thermal": 1_000_000_000},
				Links:  map[string]topology.LinkCounts{"nvlink_recoveries": perLink(12, nil), "nvlink_replays": perLink(12, nil), "nvlink_crc_errors": perLink(12, nil)},
				Absent: no("nvlink_receive_errors", "thermal_hardware", "power_brake", topology.RowsPending)}},
		{"one that cannot be read", "h100", h100a, []string{"gpu 0", "field 94 error 999", "field 162 error 15", "field 144 error 2"},
			topology.Counts{Whole: map[string]uint64{"ecc_corrected": 0, "ecc_uncorrected": 0, "power_cap": 0, "sync_boost": 0, "thermal": 0, "thermal_hardware": 0, "power_brake": 0},
				Links:  map[string]topology.LinkCounts{"nvlink_replays": perLink(18, nil), "nvlink_crc_errors": perLink(18, nil)},
				Absent: map[string]string{"nvlink_receive_errors": topology.NoCounter, "nvlink_recoveries": "GPU_IS_LOST", "pcie_replays": "UNKNOWN", topology.RowsPending: topology.NoCounter}}},
		{"a link is down, and another cannot be read", "h100", h100a, []string{"gpu 0", "links 2 off", "field 162:17 error 999"},
			topology.Counts{Whole: whole, RowsPending: new(false), Absent: map[string]string{"nvlink_receive_errors": topology.NoCounter, "nvlink_recoveries": "NVLink 17: UNKNOWN"}, Links: map[string]topology.LinkCounts{
				"nvlink_recoveries": perLink(17, map[int]int64{2: topology.NotRead}), "nvlink_replays": perLink(18, map[int]int64{2: topology.NotRead}), "nvlink_crc_errors": perLink(18, map[int]int64{2: topology.NotRead})}}},
		{"without NVLinks", "h100", h100a, []string{"gpu 0", "links 0-17 off"},
			topology.Counts{Whole: whole, RowsPending: new(false), Absent: map[string]string{"nvlink_recoveries": topology.NoLink, "nvlink_replays": topology.NoLink, "nvlink_crc_errors": topology.NoLink, "nvlink_receive_errors": topology.NoLink}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := sampling(t, 580, fake.New(t, tt.machine, tt.more...), tt.uuid)
			for range 2 { // the second asks only for what the first has found
				if diff := cmp.Diff(&tt.want, p.sample()[tt.uuid].Counts, withoutXids); diff != "" {
					t.Errorf("counts (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestLoadedCountersBack reads a counter again that could not be read for a while.
func TestLoadedCountersBack(t *testing.T) {
	m := fake.New(t, "h100", "gpu 0", "field 94 error 999")
	p := sampling(t, 580, m, h100a)
	m.Change("gpu 0", "field 94 8")
	if c := p.sample()[h100a].Counts; c.Whole["pcie_replays"] != 8 || c.Absent["pcie_replays"] != "" {
		t.Errorf("counts %+v", c)
	}
	m.Change("call nvmlDeviceGetFieldValues error 999")
	c := p.sample()[h100a].Counts
	if len(c.Whole)+len(c.Links) > 0 || c.Why("pcie_replays") != "UNKNOWN" || c.Why(topology.RowsPending) != "UNKNOWN" || c.Why(topology.XidsName) == "UNKNOWN" {
		t.Errorf("counts without an answer: %+v", c)
	}
}

// TestLoadedCountersAbsent says why a MIG instance has no counters, and a driver that lacks
// the call.
func TestLoadedCountersAbsent(t *testing.T) {
	m := fake.New(t, "gb200", withMIG...)
	m.Namespace(fake.FirstNamespace)
	p := startWith(t, fake.Without(t, fake.Library(t, 580), fieldValues), m)
	n := p.read()
	var mig string
	for _, g := range n.GPUs {
		for _, i := range g.MIG {
			mig = i.UUID
		}
	}
	for _, tt := range []struct {
		p         *process
		uuid, why string
	}{{p, gb200a, noFieldsCall}, {sampling(t, 580, m), mig, topology.OfWholeGPU}} {
		tt.p.sampleOf(tt.uuid)
		c := tt.p.sample()[tt.uuid].Counts
		for name := range counterFields {
			if c.Why(name) != tt.why {
				t.Errorf("%s: %s is absent because %q, want %q", tt.uuid, name, c.Why(name), tt.why)
			}
		}
		if len(c.Whole)+len(c.Links) > 0 || c.RowsPending != nil {
			t.Errorf("%s: counts %+v", tt.uuid, c)
		}
	}
}

// TestLoadedXidCounts counts each Xid as often as it comes, for its own GPU.
func TestLoadedXidCounts(t *testing.T) {
	t.Parallel()
	const second = "GPU-b200b200-0000-0000-0000-000000000001"
	m := fake.New(t, "gb200", "xid none")
	p := watched(t, m)
	p.sampleOf(gb200a, second)
	m.Change("gpu 0", "xid 13", "gpu 1", "xid 119", "xid 79", "xid 119")
	p.until("the events", func(n *topology.Node) bool { return len(n.GPUs[1].Xids) == 2 && len(n.GPUs[0].Xids) == 1 })
	var got map[string]topology.DeviceUse
	for range 100 { // the second 119 changes no report
		if got = p.sample(); got[second].Counts.Xids[119] == 2 {
			break
		}
		p.read()
	}
	c := got[second].Counts
	if diff := cmp.Diff(map[int]uint64{79: 1, 119: 2}, c.Xids); diff != "" || c.Watched == 0 || c.Absent[topology.XidsName] != "" || got[gb200a].Counts.Xids[119] > 0 {
		t.Errorf("since %d, absent because %q (-want +got):\n%s", c.Watched, c.Absent[topology.XidsName], diff)
	}
	// A GPU without events has no count of them, and no zero.
	for statement, why := range map[string]string{"call nvmlDeviceGetSupportedEventTypes error 3": topology.NoCounter, "call nvmlDeviceRegisterEvents error 999": "UNKNOWN"} {
		p := start(t, 580, fake.New(t, "gb200", "gpu 0", statement))
		p.read()
		p.sampleOf(gb200a)
		p.until(why, func(*topology.Node) bool {
			c := p.sample()[gb200a].Counts
			return c.Xids == nil && c.Watched == 0 && c.Absent[topology.XidsName] == why
		})
	}
}

// TestCounterFields holds that each counter has fields, and no other.
func TestCounterFields(t *testing.T) {
	var want []string
	for _, k := range topology.Counters {
		want = append(want, k.Name)
	}
	want = append(want, topology.RowsPending)
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(counterFields))); diff != "" {
		t.Errorf("counters (-topology +fields):\n%s", diff)
	}
}
