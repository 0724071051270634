package jobs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// xids lets time pass and takes a sample of GPU 0, busy, to which so many Xids 31 have come
// since the probe watches.
func (r *jobsRig) xids(d time.Duration, n uint64) {
	r.now = moment{r.now.wall.Add(d), r.now.up + d}
	r.j.count(topology.Sample{Devices: []topology.DeviceUse{busyGPU(0)}, Xids: xid31(n)}, r.now)
}

func xid31(n uint64) map[string]topology.XidCounts {
	return map[string]topology.XidCounts{gpuUUID(0): {Since: 1, Came: map[int]uint64{31: n}}}
}

// TestXidsOfJob counts the Xids that come while a job holds the GPU, also after a restart of
// the agent whose probe lived on.
func TestXidsOfJob(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0)
	r.xids(10*time.Second, 4)
	r.xids(10*time.Second, 5)
	r.start()
	r.xids(10*time.Second, 7)
	use, err := rundir.Dir(r.run).Uses().Read("17")
	r.must(err)
	if diff := cmp.Diff(map[int]uint64{31: 3}, use.Devices[0].Xids); diff != "" || use.Devices[0].XidGap {
		t.Errorf("gap %t, Xids (-want +got):\n%s", use.Devices[0].XidGap, diff)
	}
}

// TestXidAtTheEnd puts an Xid of the last moments of a job into the job's summary, and nothing
// that may be another job's or came later.
func TestXidAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name  string
		next  bool
		after time.Duration
		want  uint64
	}{
		{"at once", false, time.Second, 12},
		{"another job has the GPU", true, time.Second, 0},
		{"long after", false, time.Minute, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newJobsRig(t)
			site := t.TempDir()
			r.j.config.SummaryDir = site
			r.prolog("17", 0)
			r.xids(10*time.Second, 0)
			r.xids(10*time.Second, 0)
			r.must(rundir.Dir(r.run).End(rundir.Summary{Key: "17", Record: r.record("17", 0)})) // as the Epilog does
			r.must(rundir.Dir(r.run).RemoveRecord("17"))
			if tt.next {
				r.write("18", r.record("18", 0))
			}
			r.j.round(t.Context())
			r.xids(tt.after, 0) // was on its way
			r.xids(time.Second, 12)
			r.after(10 * time.Second)
			for _, dir := range []string{rundir.Dir(r.run).SummaryDir(), site} {
				all, err := rundir.ReadSummaries(dir)
				if err != nil || len(all) != 1 {
					t.Fatalf("%d summaries, %v", len(all), err)
				}
				if got := all[0].Use.Devices[0].Xids[31]; got != tt.want {
					t.Errorf("%d Xids in %s, want %d", got, dir, tt.want)
				}
			}
		})
	}
}

// TestXidsAreNoSample: Xids alone are neither a sample that came nor one that is missing.
func TestXidsAreNoSample(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0, 1)
	r.now = moment{r.now.wall.Add(time.Second), r.now.up + time.Second}
	r.j.count(topology.Sample{Xids: xid31(1)}, r.now)
	r.wantSeries(`quoin_agent_samples_total{result="ok"} 0`, `quoin_agent_samples_total{result="missing"} 0`)
	r.sample(9*time.Second, idleGPU(0), busyGPU(1))
	r.wantSeries(`quoin_agent_samples_total{result="ok"} 2`, `quoin_agent_samples_total{result="missing"} 0`)
	r.wantCounted("idle since it is held", 0, 10, 10, 10)
}
