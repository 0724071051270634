package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// counting is a busy GPU whose counters say so many PCIe replays, nanoseconds of heat, and
// recoveries of each NVLink.
func counting(gpu int, replays, heat uint64, recoveries ...int64) topology.DeviceUse {
	d := busyGPU(gpu)
	d.Counts = &topology.Counts{Whole: map[string]uint64{"pcie_replays": replays, "thermal": heat}, RowsPending: new(true)}
	if recoveries != nil {
		d.Counts.Links = map[string]topology.LinkCounts{"nvlink_recoveries": recoveries}
	}
	return d
}

// hardwareSeries are the series of a GPU's hardware, without the labels that all have.
func (r *jobsRig) hardwareSeries(gpu int) (out []string) {
	r.t.Helper()
	for line := range strings.Lines(scrape(r.t, handler(r.j, prometheus.NewRegistry()))) {
		labels := fmt.Sprintf(`GPU_I_ID="",UUID=%q,`, gpuUUID(gpu))
		for _, name := range []string{"quoin_gpu_held_errors_total", "quoin_gpu_held_slowed_seconds_total", "quoin_gpu_rows_pending"} {
			if strings.HasPrefix(line, name+"{") && strings.Contains(line, gpuUUID(gpu)) {
				out = append(out, strings.TrimSpace(strings.TrimPrefix(strings.Replace(line, labels, "", 1), "quoin_gpu_")))
			}
		}
	}
	return out
}

func (r *jobsRig) wantHardware(what string, gpu int, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.hardwareSeries(gpu)); diff != "" {
		r.t.Errorf("%s: series of GPU %d (-want +got):\n%s", what, gpu, diff)
	}
}

// TestHardwareOfJob gives a job what its GPU's counters count while it runs, and the series
// what they count while any job holds the GPU: never what they said before, and one series
// for all links of a GPU.
func TestHardwareOfJob(t *testing.T) {
	const s = uint64(time.Second)
	r := newJobsRig(t)
	r.wantHardware("nobody has held it", 0)
	r.prolog("17", 0)
	r.sample(10*time.Second, counting(0, 5, 100*s, 7, 0))
	r.sample(10*time.Second, counting(0, 6, 103*s, 7, 412))
	want := []string{
		`held_errors_total{counter="nvlink_recoveries",gpu="0"} 412`, `held_errors_total{counter="pcie_replays",gpu="0"} 1`,
		`held_slowed_seconds_total{gpu="0",reason="thermal"} 3`, `rows_pending{gpu="0"} 1`,
	}
	r.wantHardware("held", 0, want...)
	r.start()
	r.sample(10*time.Second, counting(0, 8, 103*s, 7, 412))
	want[1] = `held_errors_total{counter="pcie_replays",gpu="0"} 3`
	r.wantHardware("after a restart of the agent", 0, want...)
	use, err := rundir.Dir(r.run).Uses().Read("17")
	r.must(err)
	h := use.Ended().Devices[0].Hardware
	if diff := cmp.Diff(map[string]float64{"nvlink_recoveries": 412, "pcie_replays": 3, "thermal": 3}, h.Counts); diff != "" {
		t.Errorf("counts of the job (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]map[int]float64{"nvlink_recoveries": {1: 412}}, h.Links); diff != "" {
		t.Errorf("links of the job (-want +got):\n%s", diff)
	}

	if h.Seconds != 20 {
		t.Errorf("counted over %g s, want 20", h.Seconds)
	}
	if h.Xids != nil || h.Unknown["xids"] == "" {
		t.Errorf("Xids %v, %v", h.Xids, h.Unknown)
	}
	r.must(rundir.Dir(r.run).RemoveRecord("17"))
	r.j.round(t.Context())
	want = want[:3]
	r.wantHardware("released: whether rows wait is not known any more", 0, want...)
	r.prolog("18", 0)
	r.sample(10*time.Second, counting(0, 100, 200*s, 7, 412))
	want = append(want, `rows_pending{gpu="0"} 1`)
	r.wantHardware("what was counted between two jobs is nobody's", 0, want...)
	r.sample(10*time.Second, counting(0, 2, 0, 0, 0))
	r.wantHardware("the GPU was reset", 0, want...)
	r.sample(10*time.Second, counting(0, 3, 0, 0, 0))
	want[1] = `held_errors_total{counter="pcie_replays",gpu="0"} 4`
	r.wantHardware("and counts on", 0, want...)
}

// TestXidsOfJob counts the Xids that come while a job holds the GPU, by class: not those of
// before, and after a restart of the probe those that its successor sees.
func TestXidsOfJob(t *testing.T) {
	r := newJobsRig(t)
	xids := func(watched int64, counts map[int]uint64) topology.DeviceUse {
		d := busyGPU(0)
		d.Counts = &topology.Counts{Watched: watched, Xids: counts}
		return d
	}
	want := func(what string, application, look, reset int) {
		t.Helper()
		for class, n := range map[string]int{"ignore": 0, "application": application, "look": look, "reset": reset, "critical": 0} {
			r.wantSeries(fmt.Sprintf(`quoin_gpu_held_xids_total{GPU_I_ID="",UUID=%q,class=%q,gpu="0"} %d`, gpuUUID(0), class, n))
		}
		if t.Failed() {
			t.Fatal(what)
		}
	}
	r.prolog("17", 0)
	r.sample(10*time.Second, xids(1, map[int]uint64{31: 4}))
	want("came before", 0, 0, 0)
	r.sample(10*time.Second, xids(1, map[int]uint64{31: 5, 119: 1}))
	want("came", 1, 0, 1)
	r.start()
	r.sample(10*time.Second, xids(1, map[int]uint64{31: 7, 119: 1}))
	want("after a restart of the agent whose probe lived on", 3, 0, 1)
	r.sample(10*time.Second, xids(2, map[int]uint64{74: 1}))
	want("after a restart of the probe", 3, 1, 1)
	use, err := rundir.Dir(r.run).Uses().Read("17")
	r.must(err)
	h := use.Ended().Devices[0].Hardware
	if diff := cmp.Diff([]rundir.XidCount{{Code: 31, Class: "application", Count: 3}, {Code: 74, Class: "look", Count: 1}, {Code: 119, Class: "reset", Count: 1}}, h.Xids); diff != "" || !strings.Contains(h.Unknown["xids"], "did not watch") {
		t.Errorf("unknown because %q, Xids (-want +got):\n%s", h.Unknown["xids"], diff)
	}
}

// TestErrorAtTheEnd puts what a GPU counted in the last moments of a job into the job's
// summary, and nothing that may be another job's or came later.
func TestErrorAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name  string
		next  bool
		after time.Duration
		want  float64
	}{
		{"at once", false, time.Second, 412},
		{"another job has the GPU", true, time.Second, 0},
		{"long after", false, time.Minute, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newJobsRig(t)
			site := t.TempDir()
			r.j.config.SummaryDir = site
			r.prolog("17", 0)
			r.sample(10*time.Second, counting(0, 0, 0, 0))
			r.sample(10*time.Second, counting(0, 0, 0, 0))
			use, err := rundir.Dir(r.run).Uses().Read("17")
			r.must(err)
			s := rundir.Summary{Key: "17", Record: r.record("17", 0), Use: use} // as the Epilog does
			r.must(rundir.WriteSummary(rundir.Dir(r.run), s))
			r.must(rundir.CopySummary(site, s))
			r.must(rundir.Dir(r.run).RemoveRecord("17"))
			if tt.next {
				r.write("18", r.record("18", 0))
			}
			r.j.round(t.Context())
			r.sample(tt.after, counting(0, 0, 0, 0)) // was on its way
			r.sample(time.Second, counting(0, 0, 0, 412))
			for _, dir := range []string{rundir.Dir(r.run).SummaryDir(), site} {
				all, err := rundir.ReadSummaries(dir)
				if err != nil || len(all) != 1 {
					t.Fatalf("%d summaries, %v", len(all), err)
				}
				if got := all[0].Use.Devices[0].Hardware.Counts["nvlink_recoveries"]; got != tt.want {
					t.Errorf("%g recoveries in %s, want %g", got, dir, tt.want)
				}
			}
		})
	}
}

// TestCountersAreNoSample: counters alone are neither a sample that came nor one that is missing.
func TestCountersAreNoSample(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0, 1)
	d := counting(0, 1, 0)
	r.sample(time.Second, topology.DeviceUse{UUID: d.UUID, Counts: d.Counts})
	r.wantSeries(`quoin_agent_samples_total{result="ok"} 0`, `quoin_agent_samples_total{result="missing"} 0`)
	r.sample(9*time.Second, idleGPU(0), busyGPU(1))
	r.wantSeries(`quoin_agent_samples_total{result="ok"} 2`, `quoin_agent_samples_total{result="missing"} 0`)
	r.wantCounted("idle since it is held", 0, 10, 10, 10)
}
