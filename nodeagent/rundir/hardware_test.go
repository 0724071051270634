package rundir

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// at are the counters of a GPU that has no others: PCIe replays, nanoseconds of heat, and
// the recoveries of NVLinks.
func at(replays, heat uint64, recoveries ...int64) *topology.Counts {
	c := &topology.Counts{Whole: map[string]uint64{"pcie_replays": replays, "thermal": heat}, RowsPending: new(false), Absent: map[string]string{}}
	if recoveries != nil {
		c.Links = map[string]topology.LinkCounts{"nvlink_recoveries": recoveries}
	}
	for _, k := range topology.Counters {
		if _, is := c.Whole[k.Name]; !is && c.Links[k.Name] == nil {
			c.Absent[k.Name] = topology.NoCounter
		}
	}
	return c
}

// watching is a moment at which Xids are counted, and one came, or none for 0.
func watching(c *topology.Counts, code int) *topology.Counts {
	if c.Watched = 1; code > 0 {
		c.Xids = map[int]uint64{code: 1}
	}
	return c
}

// without is a moment that lacks a counter.
func without(c *topology.Counts, name, why string) *topology.Counts {
	delete(c.Whole, name)
	delete(c.Links, name)
	c.Absent[name] = why
	return c
}

// lacking is a moment at which a link's recoveries could not be read.
func lacking(c *topology.Counts, why string) *topology.Counts {
	c.Absent["nvlink_recoveries"] = why
	return c
}

// TestHardware takes samples of a GPU's counters every ten seconds, the last of them nil for
// a sample that lacks the GPU.
func TestHardware(t *testing.T) {
	const s = uint64(time.Second)
	counts := func(replays, heat, recoveries float64) map[string]float64 {
		return map[string]float64{"pcie_replays": replays, "thermal": heat, "nvlink_recoveries": recoveries}
	}
	// allUnknown has one reason for the three counters.
	allUnknown := func(why string) map[string]string {
		return map[string]string{"pcie_replays": why, "thermal": why, "nvlink_recoveries": why}
	}
	const reset = "the counter pcie_replays went back: the GPU was reset, or its driver was loaded again"
	const silent = "the GPU gave no answer to the last sample"
	mig := &topology.Counts{Absent: map[string]string{topology.AllCounters: topology.OfWholeGPU}}
	for _, tt := range []struct {
		name    string
		samples []*topology.Counts
		want    *Hardware
	}{
		{"none", nil, nil},
		{"what was counted before is not the job's", []*topology.Counts{at(5, 100*s, 7, 0, 3), at(5, 100*s, 7, 0, 3)},
			&Hardware{Counts: counts(0, 0, 0), RowsPending: new(false)}},
		{"the difference, over what lies between", []*topology.Counts{at(5, 100*s, 7, 0, 3), at(6, 101*s, 7, 400, 3), at(8, 104*s, 7, 412, 4)},
			&Hardware{Counts: counts(3, 4, 413), Links: map[string]map[int]float64{"nvlink_recoveries": {1: 412, 2: 1}}, RowsPending: new(false)}},
		{"one sample has no difference", []*topology.Counts{at(5, s, 1)},
			&Hardware{Unknown: allUnknown("only one sample was taken"), RowsPending: new(false)}},
		{"the GPU was reset", []*topology.Counts{at(5, s, 1), at(0, s, 1), at(9, 2*s, 1)},
			&Hardware{Unknown: allUnknown(reset), RowsPending: new(false)}},
		{"a link was read only at first, another only in the end", []*topology.Counts{at(5, s, 1, topology.NotRead), at(5, s, topology.NotRead, 9), at(5, s, 4, 9)},
			&Hardware{Counts: counts(0, 0, 3), Links: map[string]map[int]float64{"nvlink_recoveries": {0: 3}}, RowsPending: new(false)}},
		{"a counter could not be read for a while", []*topology.Counts{at(5, s, 1), without(at(5, s, 1), "pcie_replays", "UNKNOWN"), at(9, s, 1)},
			&Hardware{Counts: counts(4, 0, 0), RowsPending: new(false)}},
		{"or in the end", []*topology.Counts{at(5, s, 1), at(6, s, 1), without(at(7, s, 1), "pcie_replays", "UNKNOWN")},
			&Hardware{Counts: map[string]float64{"thermal": 0, "nvlink_recoveries": 0}, RowsPending: new(false), Unknown: map[string]string{"pcie_replays": "UNKNOWN"}}},
		{"or at first", []*topology.Counts{without(at(5, s, 1), "nvlink_recoveries", "UNKNOWN"), at(6, s, 1)},
			&Hardware{Counts: map[string]float64{"thermal": 0, "pcie_replays": 1}, RowsPending: new(false), Unknown: map[string]string{"nvlink_recoveries": "when the job began: UNKNOWN"}}},
		{"one link could not be read in the end", []*topology.Counts{at(5, s, 1, 2), lacking(at(5, s, 1, topology.NotRead), "NVLink 1: UNKNOWN")},
			&Hardware{Counts: map[string]float64{"thermal": 0, "pcie_replays": 0}, RowsPending: new(false), Unknown: map[string]string{"nvlink_recoveries": "NVLink 1: UNKNOWN"}}},
		{"or at first", []*topology.Counts{lacking(at(5, s, 1, topology.NotRead), "NVLink 1: UNKNOWN"), at(5, s, 1, 2)},
			&Hardware{Counts: map[string]float64{"thermal": 0, "pcie_replays": 0}, RowsPending: new(false), Unknown: map[string]string{"nvlink_recoveries": "when the job began: NVLink 1: UNKNOWN"}}},
		{"the GPU fell silent", []*topology.Counts{at(5, s, 1), at(6, s, 1), nil},
			&Hardware{Unknown: map[string]string{topology.AllCounters: silent}}},
		{"a MIG instance", []*topology.Counts{mig, mig},
			&Hardware{Unknown: map[string]string{topology.AllCounters: topology.OfWholeGPU}}},
		{"the GPU was lost, and an Xid came with it", []*topology.Counts{watching(at(5, s, 1), 0), watching(at(6, s, 1), 0), watching(&topology.Counts{Absent: map[string]string{topology.AllCounters: "lost"}}, 79)},
			&Hardware{Xids: []XidCount{{79, fabric.XidCritical, 1}}, Unknown: map[string]string{"pcie_replays": "lost", "thermal": "lost", "nvlink_recoveries": "lost", topology.RowsPending: "lost"}}},
		{"and came back", []*topology.Counts{at(5, s, 1), nil, at(6, s, 1)},
			&Hardware{Counts: counts(1, 0, 0), RowsPending: new(false)}},
		{"more heat than time", []*topology.Counts{at(5, s, 1), at(5, 1001*s, 1)},
			&Hardware{Counts: map[string]float64{"pcie_replays": 0, "nvlink_recoveries": 0}, RowsPending: new(false), Unknown: map[string]string{"thermal": "it counted 1000 s within 10 s"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := NewUse("7", Run{}, first)
			u.Hold([]Entry{{UUID: "GPU-a"}})
			for i, c := range tt.samples {
				var s topology.Sample
				if c != nil {
					s.Devices = []topology.DeviceUse{{UUID: "GPU-a", Counts: c}}
				}
				u.Add(s, first.Add(time.Duration(i+1)*every), every)
			}
			got := u.Ended().Devices[0].Hardware
			if got != nil {
				maps.DeleteFunc(got.Unknown, func(name, _ string) bool { // what the GPU never had
					return !slices.Contains([]string{"pcie_replays", "thermal", "nvlink_recoveries", topology.RowsPending, topology.AllCounters}, name)
				})
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Hardware{}, "Seconds")); diff != "" {
				t.Errorf("hardware (-want +got):\n%s", diff)
			}
			if u.Devices[0].Hardware != nil || u.Ended().Devices[0].Counting != nil {
				t.Error("a use has the samples while the job runs, and the difference afterwards")
			}
		})
	}
}

// TestCountersAtOnce: a sample that has counters alone is no sample of the use: it covers no time,
// and the next one covers the time since the job was first seen.
func TestCountersAtOnce(t *testing.T) {
	u := NewUse("7", Run{}, first)
	u.Hold([]Entry{{UUID: "GPU-a"}})
	u.Add(topology.Sample{Devices: []topology.DeviceUse{{UUID: "GPU-a", Counts: at(5, 0, 1)}}}, first.Add(time.Second), every)
	if d := u.Devices[0]; d.Samples != 0 || d.Seconds != 0 || d.Counting == nil || !u.Until.Equal(first) {
		t.Errorf("%+v until %s", d, u.Until)
	}
	use := util(1, 0.5)
	use.UUID = "GPU-a"
	u.Add(topology.Sample{Devices: []topology.DeviceUse{use}}, first.Add(every), every)
	if d := u.Devices[0]; d.Samples != 1 || d.Seconds != every.Seconds() {
		t.Errorf("%+v: want one sample of %s", d, every)
	}
}
