package rundir

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// TestXidsOfUse takes samples of a GPU's Xids every ten seconds.
func TestXidsOfUse(t *testing.T) {
	const gpu = "GPU-a"
	came := func(since int64, counts map[int]uint64) *topology.XidCounts {
		return &topology.XidCounts{Since: since, Came: counts}
	}
	for _, tt := range []struct {
		name    string
		samples []*topology.XidCounts
		want    map[int]uint64
		gap     bool
	}{
		{"nobody watches", []*topology.XidCounts{nil, nil}, nil, false},
		{"none came", []*topology.XidCounts{came(1, nil), came(1, nil)}, map[int]uint64{}, false},
		{"those of the first sample came before", []*topology.XidCounts{came(1, map[int]uint64{31: 4}), came(1, map[int]uint64{31: 4})}, map[int]uint64{}, false},
		{"those after the first", []*topology.XidCounts{came(1, map[int]uint64{31: 4}), came(1, map[int]uint64{31: 5, 119: 1}), came(1, map[int]uint64{31: 7, 119: 1})}, map[int]uint64{31: 3, 119: 1}, false},
		{"another probe watches", []*topology.XidCounts{came(1, map[int]uint64{31: 4}), came(1, map[int]uint64{31: 5}), came(2, map[int]uint64{31: 1, 74: 1})}, map[int]uint64{31: 2, 74: 1}, true},
		{"nobody watches any more", []*topology.XidCounts{came(1, nil), came(1, map[int]uint64{31: 1}), nil}, map[int]uint64{31: 1}, true},
		{"nobody watched for a while", []*topology.XidCounts{came(1, nil), nil, came(2, nil)}, map[int]uint64{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := NewUse("7", Run{}, first)
			u.Hold([]Entry{{UUID: gpu}}, noProgram)
			for i, x := range tt.samples {
				s := topology.Sample{Devices: []topology.DeviceUse{{UUID: gpu, Processes: new(1)}}}
				if x != nil {
					s.Xids = map[string]topology.XidCounts{gpu: *x}
				}
				u.Add(s, first.Add(time.Duration(i)*every), every)
			}
			d := u.Devices[0]
			if diff := cmp.Diff(tt.want, d.Xids); diff != "" {
				t.Errorf("Xids (-want +got):\n%s", diff)
			}
			if d.XidGap != tt.gap {
				t.Errorf("gap %t, want %t", d.XidGap, tt.gap)
			}
		})
	}
}

// TestXidsAreBounded keeps the numbers of a use within its bound.
func TestXidsAreBounded(t *testing.T) {
	many := topology.XidCounts{Since: 1, Came: map[int]uint64{}}
	for code := range topology.MaxXidNumbers {
		many.Came[code+1] = 1
	}
	d := DeviceUse{}
	d.addXids(topology.XidCounts{Since: 1})
	if d.addXids(many); len(d.Xids) != maxXids {
		t.Errorf("%d numbers, want %d", len(d.Xids), maxXids)
	}
}

// TestXidsOfReturnedGPU leaves out what came while the job did not hold the GPU.
func TestXidsOfReturnedGPU(t *testing.T) {
	u := NewUse("7", Run{}, first)
	add := func(n uint64) {
		u.Add(topology.Sample{Xids: map[string]topology.XidCounts{"GPU-a": {Since: 1, Came: map[int]uint64{31: n}}}}, first, every)
	}
	gpu := []Entry{{UUID: "GPU-a"}}
	u.Hold(gpu, noProgram)
	add(1)
	add(2)
	u.Hold(nil, noProgram)
	add(5)
	u.Hold(gpu, noProgram)
	add(9)
	add(10)
	if got := u.Devices[0].Xids[31]; got != 2 {
		t.Errorf("%d, want 2: one of each time", got)
	}
}
