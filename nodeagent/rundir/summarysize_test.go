package rundir

import (
	"fmt"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

// TestSummaryHasRoom writes the largest summaries there are: of 16 GPUs with many Xids and with many
// programs from before the job, and of 56 MIG instances.
func TestSummaryHasRoom(t *testing.T) {
	many := &topology.XidCounts{Since: 1_790_000_000_000_000_000, Came: map[int]uint64{}}
	for code := range topology.MaxXidNumbers {
		many.Came[code+1] = 12_345
	}
	for _, tt := range []struct {
		name        string
		devices     int
		first, last *topology.XidCounts
	}{{"GPUs", 16, &topology.XidCounts{Since: many.Since}, many}, {"MIG instances", 56, nil, nil}} {
		u := NewUse("7", Run{}, first)
		var entries []Entry
		for i := range tt.devices {
			entries = append(entries, Entry{UUID: fmt.Sprintf("MIG-12345678-1234-1234-1234-%012d", i), ExporterID: "12.13", Product: "NVIDIA A100-SXM4-40GB MIG 1g.5gb"})
		}
		u.Hold(entries, noProgram)
		for i, x := range []*topology.XidCounts{tt.first, tt.last} {
			s := topology.Sample{Xids: map[string]topology.XidCounts{}}
			for i := range u.Devices {
				u.Devices[i].Before = make([]uint32, topology.MaxPrograms)
			}
			for _, e := range entries {
				if x != nil {
					s.Xids[e.UUID] = *x
				}
				s.Devices = append(s.Devices, topology.DeviceUse{UUID: e.UUID, Utilization: new(1.0 / 3), SMActivity: new(1.0 / 3), Power: new(1.0 / 3), Energy: new(float64(i)), MemoryUsed: new(uint64(1e11)), MemoryTotal: new(uint64(1e11)), Processes: new(1)})
			}
			u.Add(s, first.Add(every*7), every)
		}
		dir := Dir(t.TempDir())
		if err := WriteSummary(dir, Summary{Key: "7", Record: Record{JobID: "7"}, Use: u}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
