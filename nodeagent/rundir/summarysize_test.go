package rundir

import (
	"fmt"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

// TestSummaryHasRoom writes the largest summaries there are: of 16 GPUs with errors on every
// link and many Xids, and of 56 MIG instances.
func TestSummaryHasRoom(t *testing.T) {
	whole := &topology.Counts{Whole: map[string]uint64{}, Links: map[string]topology.LinkCounts{}, RowsPending: new(true), Watched: 1, Xids: map[int]uint64{}}
	for i := range topology.Counters {
		if k := &topology.Counters[i]; !k.ByLink {
			whole.Whole[k.Name] = 1
			continue
		}
		links := make(topology.LinkCounts, 18)
		for link := range links {
			links[link] = 123_456_789
		}
		whole.Links[topology.Counters[i].Name] = links
	}
	zero := &topology.Counts{Whole: map[string]uint64{}, Links: map[string]topology.LinkCounts{}, RowsPending: new(false), Watched: 1}
	for name := range whole.Whole {
		zero.Whole[name] = 0
	}
	for name := range whole.Links {
		zero.Links[name] = make(topology.LinkCounts, 18)
	}
	for code := range 100 {
		whole.Xids[code+1] = 12_345
	}
	mig := &topology.Counts{Absent: map[string]string{topology.AllCounters: topology.OfWholeGPU}}
	for _, tt := range []struct {
		name        string
		devices     int
		first, last *topology.Counts
	}{{"GPUs", 16, zero, whole}, {"MIG instances", 56, mig, mig}} {
		u := NewUse("7", Run{}, first)
		var entries []Entry
		for i := range tt.devices {
			entries = append(entries, Entry{UUID: fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i), ExporterID: fmt.Sprint(i), Product: "NVIDIA A100-SXM4-40GB MIG 1g.5gb"})
		}
		u.Hold(entries)
		for i, c := range []*topology.Counts{tt.first, tt.last} {
			var s topology.Sample
			for _, e := range entries {
				s.Devices = append(s.Devices, topology.DeviceUse{UUID: e.UUID, Counts: c, Utilization: new(1.0 / 3), SMActivity: new(1.0 / 3), Power: new(1.0 / 3), Energy: new(float64(i)), MemoryUsed: new(uint64(1e11)), MemoryTotal: new(uint64(1e11)), Processes: new(1)})
			}
			u.Add(s, first.Add(every*7), every)
		}
		dir := Dir(t.TempDir())
		if err := WriteSummary(dir, Summary{Key: "7", Record: Record{JobID: "7"}, Use: u}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
