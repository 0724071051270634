package rundir

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/topology"
)

// first is when the jobs of these tests are first seen.
var first = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const every = 10 * time.Second

// sampleAt is a sample of GPU-a some seconds after the job was first seen.
type sampleAt struct {
	seconds float64
	use     topology.DeviceUse
}

// util is a sample with programs, and a share of time in which a kernel ran.
func util(processes int, share float64) topology.DeviceUse {
	return topology.DeviceUse{Processes: new(processes), Utilization: new(share)}
}

func energy(joules float64) topology.DeviceUse { return topology.DeviceUse{Energy: new(joules)} }

func power(watts float64) topology.DeviceUse { return topology.DeviceUse{Power: new(watts)} }

// summed takes samples of GPU-a, which the job holds.
func summed(samples []sampleAt) DeviceUse {
	u := NewUse("7", Run{}, first)
	u.Hold([]Entry{{UUID: "GPU-a"}}, noProgram)
	for _, s := range samples {
		s.use.UUID = "GPU-a"
		u.Add(topology.Sample{Devices: []topology.DeviceUse{s.use}}, first.Add(time.Duration(s.seconds*float64(time.Second))), every)
	}
	return u.Devices[0]
}

func TestUseSums(t *testing.T) {
	tests := []struct {
		name    string
		samples []sampleAt
		want    DeviceUse
	}{
		{"none", nil, DeviceUse{}},
		{"one", []sampleAt{{4, util(1, 0.5)}},
			DeviceUse{Samples: 1, Seconds: 4, Used: true, Utilization: &Stat{0.5, 0.5, 4}}},
		{"weighted by the time since the one before", []sampleAt{{4, util(1, 1)}, {20, util(1, 0.25)}},
			DeviceUse{Samples: 2, Seconds: 20, Used: true, Utilization: &Stat{0.4, 1, 20}}},
		{"at the moment it was seen", []sampleAt{{0, util(1, 1)}, {10, util(1, 0.5)}},
			DeviceUse{Samples: 2, Seconds: 10, Used: true, Utilization: &Stat{0.5, 1, 10}}},
		{"twice in a moment", []sampleAt{{10, util(1, 0.5)}, {10, util(1, 1)}},
			DeviceUse{Samples: 2, Seconds: 10, Used: true, Utilization: &Stat{0.5, 1, 10}}},
		{"a gap of three intervals is sampled", []sampleAt{{10, util(0, 0)}, {40, util(1, 1)}},
			DeviceUse{Samples: 2, Seconds: 40, IdleSeconds: 10, Used: true, Utilization: &Stat{0.75, 1, 40}}},
		{"a longer one is not", []sampleAt{{10, util(0, 0)}, {40.001, util(1, 1)}},
			DeviceUse{Samples: 2, Seconds: 20, IdleSeconds: 10, Used: true, Utilization: &Stat{0.5, 1, 20}}},
		{"sampling began late", []sampleAt{{3600, util(0, 0)}},
			DeviceUse{Samples: 1, Seconds: 10, IdleSeconds: 10, Utilization: &Stat{0, 0, 10}}},
		{"the clock went back", []sampleAt{{100, util(0, 0)}, {40, util(0, 0)}, {50, util(0, 0)}},
			DeviceUse{Samples: 3, Seconds: 30, IdleSeconds: 30, Utilization: &Stat{0, 0, 30}}},
		{"idle, then used", []sampleAt{{10, util(0, 0)}, {20, util(1, 0)}, {30, util(1, 0.5)}, {40, util(0, 0)}},
			DeviceUse{Samples: 4, Seconds: 40, IdleSeconds: 20, Used: true, Utilization: &Stat{0.125, 0.5, 40}}},
		{"unknown programs are neither idle nor use", []sampleAt{{10, topology.DeviceUse{Utilization: new(0.0)}}},
			DeviceUse{Samples: 1, Seconds: 10, Utilization: &Stat{0, 0, 10}}},
		{"unknown utilisation is neither idle nor use", []sampleAt{{10, topology.DeviceUse{Processes: new(0)}}},
			DeviceUse{Samples: 1, Seconds: 10}},
		{"what is not always told is averaged over when it was", []sampleAt{
			{10, topology.DeviceUse{SMActivity: new(0.5)}}, {20, topology.DeviceUse{}}, {30, topology.DeviceUse{SMActivity: new(0.75)}}},
			DeviceUse{Samples: 3, Seconds: 30, Used: true, SMActivity: &Stat{0.625, 0.75, 20}}},
		{"memory", []sampleAt{
			{10, topology.DeviceUse{MemoryUsed: new(uint64(100)), MemoryTotal: new(uint64(1000))}}, {20, topology.DeviceUse{MemoryUsed: new(uint64(300))}}},
			DeviceUse{Samples: 2, Seconds: 20, Memory: &Stat{200, 300, 20}, MemoryTotal: 1000}},
		{"energy of the counter", []sampleAt{{10, energy(1000)}, {20, energy(1500)}, {30, energy(4500)}},
			DeviceUse{Samples: 3, Seconds: 30, Energy: new(3500.0), Counter: new(4500.0)}},
		{"the counter knows of a gap", []sampleAt{{10, energy(1000)}, {600, energy(60000)}},
			DeviceUse{Samples: 2, Seconds: 20, Energy: new(59000.0), Counter: new(60000.0)}},
		{"the driver was loaded again", []sampleAt{{10, energy(1000)}, {20, energy(1500)}, {30, energy(200)}, {40, energy(300)}},
			DeviceUse{Samples: 4, Seconds: 40, Energy: new(800.0), Counter: new(300.0)}},
		{"one word of the counter is no difference", []sampleAt{{10, energy(1000)}},
			DeviceUse{Samples: 1, Seconds: 10, Counter: new(1000.0)}},
		{"power over time without a counter", []sampleAt{{10, power(100)}, {30, power(400)}},
			DeviceUse{Samples: 2, Seconds: 30, Power: &Stat{300, 400, 30}, Energy: new(9000.0)}},
		{"power until the counter's first difference", []sampleAt{
			{10, topology.DeviceUse{Power: new(100.0), Energy: new(5000.0)}}, {20, topology.DeviceUse{Power: new(300.0), Energy: new(7000.0)}}},
			DeviceUse{Samples: 2, Seconds: 20, Power: &Stat{200, 300, 20}, Energy: new(3000.0), Counter: new(7000.0)}},
		{"a counter that failed once is not counted twice", []sampleAt{
			{10, energy(1000)}, {20, power(100)}, {30, topology.DeviceUse{Power: new(100.0), Energy: new(3000.0)}}, {40, energy(3500)}},
			DeviceUse{Samples: 4, Seconds: 40, Power: &Stat{100, 100, 20}, Energy: new(2500.0), Counter: new(3500.0)}},
		{"a MIG instance", []sampleAt{{10, topology.DeviceUse{Processes: new(1), MemoryUsed: new(uint64(5))}}},
			DeviceUse{Samples: 1, Seconds: 10, Used: true, Memory: &Stat{5, 5, 10}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := summed(tt.samples)
			if n := len(tt.samples); n > 0 {
				if at := first.Add(time.Duration(tt.samples[n-1].seconds * float64(time.Second))); got.Sampled == nil || !got.Sampled.Equal(at) {
					t.Errorf("sampled at %v, want %s", got.Sampled, at)
				}
			}
			tt.want.UUID, tt.want.Sampled = "GPU-a", got.Sampled
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(0, 1e-9), cmpopts.IgnoreFields(DeviceUse{}, "IdleStretch")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestIdleStretch is for how long a device has been idle, without what is not known.
func TestIdleStretch(t *testing.T) {
	idle, busy, hidden := util(0, 0), util(1, 0), topology.DeviceUse{Utilization: new(0.0)}
	for _, tt := range []struct {
		name    string
		samples []sampleAt
		want    float64
	}{
		{"idle", []sampleAt{{10, idle}, {20, idle}}, 20},
		{"used", []sampleAt{{10, idle}, {20, busy}}, 0},
		{"idle again", []sampleAt{{10, busy}, {20, idle}}, 10},
		{"a sample that cannot tell", []sampleAt{{10, idle}, {20, hidden}, {30, idle}}, 20},
		{"a long gap", []sampleAt{{10, idle}, {20, idle}, {100, idle}}, 10},
		{"the clock went back", []sampleAt{{100, idle}, {40, idle}}, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := summed(tt.samples).IdleStretch; got != tt.want {
				t.Errorf("%g seconds, want %g", got, tt.want)
			}
		})
	}
}

// A job whose devices change keeps the sums of those that it has no longer, and
// takes no samples of theirs, nor of a stranger's.
func TestDevicesChange(t *testing.T) {
	u := NewUse("7", Run{}, first)
	both := topology.Sample{Devices: []topology.DeviceUse{
		{UUID: "GPU-b", Processes: new(1), Utilization: new(1.0), Energy: new(500.0)},
		{UUID: "GPU-a", Processes: new(0), Utilization: new(0.0), Energy: new(100.0)},
		{UUID: "GPU-c", Processes: new(1), Utilization: new(1.0)}}}
	u.Hold([]Entry{{UUID: "GPU-a", ExporterID: "3"}, {UUID: ""}, {UUID: "GPU-a", ExporterID: "3"}}, noProgram)
	u.Add(both, first.Add(10*time.Second), every)
	u.Hold([]Entry{{UUID: "GPU-b", ExporterID: "4"}}, noProgram)
	u.Add(both, first.Add(20*time.Second), every)
	u.Add(both, first.Add(30*time.Second), every)
	check := func(want ...DeviceUse) {
		t.Helper()
		if diff := cmp.Diff(want, u.Devices, cmpopts.IgnoreFields(DeviceUse{}, "Utilization", "Sampled", "Counter")); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	check(DeviceUse{UUID: "GPU-b", ExporterID: "4", Samples: 2, Seconds: 20, Used: true, Energy: new(0.0)},
		DeviceUse{UUID: "GPU-a", ExporterID: "3", Released: true, Samples: 1, Seconds: 10, IdleSeconds: 10, IdleStretch: 10})

	u.Hold([]Entry{{UUID: "GPU-a", ExporterID: "5"}, {UUID: "GPU-b", ExporterID: "4"}}, noProgram)
	both.Devices[1].Energy = new(9000.0) // what others took meanwhile
	u.Add(both, first.Add(40*time.Second), every)
	check(DeviceUse{UUID: "GPU-a", ExporterID: "5", Samples: 2, Seconds: 20, IdleSeconds: 20, IdleStretch: 10},
		DeviceUse{UUID: "GPU-b", ExporterID: "4", Samples: 3, Seconds: 30, Used: true, Energy: new(0.0)})

	u.Add(topology.Sample{}, first.Add(45*time.Second), every) // says nothing of the use
	u.Add(topology.Sample{Devices: []topology.DeviceUse{}}, first.Add(50*time.Second), every)
	check(DeviceUse{UUID: "GPU-a", ExporterID: "5", Samples: 2, Seconds: 20, IdleSeconds: 20, IdleStretch: 10},
		DeviceUse{UUID: "GPU-b", ExporterID: "4", Samples: 3, Seconds: 30, Used: true, Energy: new(0.0)})
	if !u.Until.Equal(first.Add(50 * time.Second)) {
		t.Errorf("until %s", u.Until)
	}
}
