package jobs

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

func idleGPU(i int) topology.DeviceUse {
	return topology.DeviceUse{UUID: gpuUUID(i), Utilization: new(0.0), Processes: new(0), Power: new(70.0)}
}

func busyGPU(i int) topology.DeviceUse {
	return topology.DeviceUse{UUID: gpuUUID(i), Utilization: new(0.5), Processes: new(1), Power: new(500.0)}
}

// unknownGPU tells nothing of processes.
func unknownGPU(i int) topology.DeviceUse {
	return topology.DeviceUse{UUID: gpuUUID(i), Utilization: new(0.0)}
}

// sample lets time pass and takes a sample then.
func (r *jobsRig) sample(d time.Duration, devices ...topology.DeviceUse) {
	r.now = moment{r.now.wall.Add(d), r.now.up + d}
	r.j.count(topology.Sample{Devices: devices}, r.now)
}

// counted returns held, idle and stretch of a GPU in seconds, as a scrape has them.
func (r *jobsRig) counted(gpu int) [3]float64 {
	r.t.Helper()
	text := scrape(r.t, handler(r.j, processSeries()))
	var out [3]float64
	for i, name := range []string{"quoin_gpu_held_seconds_total", "quoin_gpu_idle_held_seconds_total", "quoin_gpu_idle_held_stretch_seconds"} {
		out[i] = math.Round(valueOf(r.t, text, name, gpuUUID(gpu))*1e6) / 1e6
	}
	return out
}

func (r *jobsRig) wantCounted(what string, gpu int, held, idle, stretch float64) {
	r.t.Helper()
	if diff := cmp.Diff([3]float64{held, idle, stretch}, r.counted(gpu)); diff != "" {
		r.t.Errorf("%s: GPU %d: held, idle, stretch (-want +got):\n%s", what, gpu, diff)
	}
}

// TestHeldAndIdle counts the seconds of devices by samples: held by anybody, once, and idle
// where a sample shows it.
func TestHeldAndIdle(t *testing.T) {
	r := newJobsRig(t)
	r.sample(10*time.Second, idleGPU(0))
	r.wantCounted("nobody holds it", 0, 0, 0, 0)
	r.prolog("17", 0, 1)
	r.prolog("18", 1, 2)
	r.sample(10*time.Second, idleGPU(0), busyGPU(1), unknownGPU(2))
	r.sample(10*time.Second, idleGPU(0), idleGPU(1))
	r.wantCounted("idle", 0, 20, 20, 20)
	r.wantCounted("shared by two jobs, and idle in the second half", 1, 20, 10, 10)
	r.wantCounted("neither idle nor busy, and then no sample", 2, 10, 0, 0)
	r.wantCounted("held by nobody", 3, 0, 0, 0)
	r.sample(10*time.Second, busyGPU(0), busyGPU(1), idleGPU(2))
	r.wantCounted("busy", 0, 30, 20, 0)
	r.wantCounted("idle since the sample that could not tell", 2, 30, 20, 20)
	r.now = moment{r.now.wall.Add(5 * time.Second), r.now.up + 5*time.Second}
	r.wantCounted("between two samples", 0, 30, 20, 0)
	r.must(rundir.Dir(r.run).RemoveRecord("17"))
	r.j.round(t.Context())
	r.now = moment{r.now.wall.Add(time.Hour), r.now.up + time.Hour}
	r.wantCounted("released", 0, 30, 20, 0)
	r.sample(time.Second, idleGPU(0), idleGPU(1), idleGPU(2))
	r.wantCounted("released and sampled", 0, 30, 20, 0)
	r.wantCounted("held by the other, after a gap: one interval counts", 1, 40, 20, 10)
	r.wantSeries(`quoin_agent_samples_total{result="ok"} 10`, `quoin_agent_samples_total{result="missing"} 1`) // of 3, 2, 3 and 2 devices
}

// TestHeldOverClockSteps counts one interval if the clock has gone back or far ahead.
func TestHeldOverClockSteps(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0)
	r.sample(10*time.Second, idleGPU(0))
	r.now.wall = r.now.wall.Add(-24 * time.Hour)
	r.sample(10*time.Second, idleGPU(0))
	r.now.wall = r.now.wall.Add(48 * time.Hour)
	r.j.round(t.Context())
	r.sample(10*time.Second, idleGPU(0))
	r.wantCounted("the clock went back and forth by days", 0, 30, 30, 10)
	r.prolog("18", 1) // a record of the future
	r.must(os.Chtimes(r.j.records.path("18"), time.Time{}, r.now.wall.Add(time.Hour)))
	r.j.round(t.Context())
	r.sample(10*time.Second, busyGPU(1))
	r.wantCounted("its record is of the future", 1, 10, 0, 0)
}

// TestHeldOverRestarts begins at zero with each agent, as counters do, and counts what jobs have
// held since the last sample. Uses and stretches go on, but not over a boot.
func TestHeldOverRestarts(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0, 1)
	r.sample(10*time.Second, idleGPU(0), idleGPU(1))
	pass := func(d time.Duration) { r.now = moment{r.now.wall.Add(d), r.now.up + d} }
	pass(4 * time.Second)
	r.write("18", r.record("18", 2)) // no agent runs now
	pass(6 * time.Second)
	r.start()
	r.sample(5*time.Second, idleGPU(0), busyGPU(1), idleGPU(2))
	r.wantCounted("held all the while", 0, 15, 15, 25)
	r.wantCounted("busy again", 1, 15, 0, 0)
	r.wantCounted("held since the agent began", 2, 5, 5, 5)
	r.must(rundir.Dir(r.run).RemoveRecord("18"))
	pass(10 * time.Second)
	r.start()
	r.wantCounted("its job ended while no agent ran", 2, 0, 0, 0)
	r.wantCounted("held on", 1, 0, 0, 0)
	use, err := rundir.Dir(r.run).Uses().Read("17")
	if err != nil || use == nil || use.Devices[0].Seconds != 25 || use.Devices[1].IdleSeconds != 10 || !use.Devices[1].Used || use.Devices[0].Used {
		t.Errorf("use %+v, %v", use, err)
	}
	r.boot = "boot-2"
	r.start()
	r.wantCounted("another boot", 1, 0, 0, 0)
	if isThere(filepath.Join(r.run, "use", "17.json")) {
		t.Error("the use of a job of another boot is still there")
	}
}

// TestStretchIsOfOneJob is the longest of the jobs that hold the device, and zero if one of
// them has used it.
func TestStretchIsOfOneJob(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0)
	for range 6 {
		r.sample(10*time.Second, idleGPU(0))
	}
	r.write("18", r.record("18", 0))
	r.j.round(t.Context())
	r.sample(10*time.Second, idleGPU(0))
	r.wantCounted("shared", 0, 70, 70, 70)
	r.must(rundir.Dir(r.run).RemoveRecord("17"))
	r.j.round(t.Context())
	r.sample(10*time.Second, idleGPU(0))
	r.wantCounted("shared for a while", 0, 80, 80, 20)
	r.must(rundir.Dir(r.run).RemoveRecord("18"))
	r.write("19", r.record("19", 0))
	r.j.round(t.Context())
	r.sample(10*time.Second, idleGPU(0))
	r.wantCounted("another job", 0, 90, 90, 10)
}

// TestRequeuedRunIsAnother counts a requeued run anew: its use has nothing of the first run's
// hours, whatever tells the two runs apart.
func TestRequeuedRunIsAnother(t *testing.T) {
	for what, requeue := range map[string]func(*rundir.Record){
		"another start":               func(rec *rundir.Record) { rec.StartTime = "4000" },
		"another run, the same start": func(rec *rundir.Record) { rec.SLUID = "s2" },
	} {
		r := newJobsRig(t)
		r.prolog("17", 0)
		for range 60 {
			r.sample(10*time.Second, busyGPU(0))
		}
		rec := r.record("17", 0)
		requeue(&rec)
		r.write("17", rec)
		r.j.round(t.Context())
		r.sample(10*time.Second, idleGPU(0))
		use, err := rundir.Dir(r.run).Uses().Read("17")
		if err != nil || use == nil {
			t.Fatalf("%s: use %+v, %v", what, use, err)
		}
		if d := use.Devices[0]; d.Used || d.Seconds != 10 {
			t.Errorf("%s: %v seconds, used %t; want the 10 seconds of the second run, unused", what, d.Seconds, d.Used)
		}
	}
}
