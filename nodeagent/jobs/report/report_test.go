package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// start is the start time of all runs in these tests.
const start = 1_772_366_400 // 2026-03-01 12:00:00

// on is what a node knows of a run: a device that was used, and others that were not.
// ended is how many seconds after the start the run ended, 0 if it runs.
func on(job, node string, ended int64, devices ...rundir.DeviceUse) nodeRun {
	n := nodeRun{record: rundir.Record{JobID: job, Run: rundir.Run{StartTime: fmt.Sprint(start)}, Node: node}}
	if ended > 0 {
		n.ended = start + ended
	}
	if len(devices) > 0 {
		n.use = &rundir.Use{Devices: devices}
	}
	return n
}

func (n nodeRun) with(change func(*rundir.Record)) nodeRun {
	change(&n.record)
	return n
}

// used, idle and unsampled are devices.
func used(id string, share float64) rundir.DeviceUse {
	return rundir.DeviceUse{UUID: "GPU-" + id, ExporterID: id, Samples: 6, Seconds: 60, Used: true, Utilization: &rundir.Stat{Mean: share, Max: 1, Seconds: 60}, Power: &rundir.Stat{Mean: 500}}
}

func idle(id string) rundir.DeviceUse {
	return rundir.DeviceUse{UUID: "GPU-" + id, ExporterID: id, Samples: 6, Seconds: 60, IdleSeconds: 60, Utilization: &rundir.Stat{Seconds: 60}}
}

func unsampled(id string) rundir.DeviceUse {
	return rundir.DeviceUse{UUID: "GPU-" + id, ExporterID: id}
}

// names writes runs as "7:n1,n2".
func names(runs []Run) string {
	var out []string
	for i := range runs {
		var nodes []string
		for _, n := range runs[i].nodes {
			nodes = append(nodes, n.record.Node)
		}
		out = append(out, runs[i].name()+":"+strings.Join(nodes, ","))
	}
	return strings.Join(out, " ")
}

func TestGroupRuns(t *testing.T) {
	later := func(r *rundir.Record) { r.StartTime = fmt.Sprint(start + 100) }
	cluster := func(name string) func(*rundir.Record) { return func(r *rundir.Record) { r.Cluster = name } }
	for _, tt := range []struct {
		name  string
		nodes []nodeRun
		all   string
		id    string // of the runs that Of returns
		last  string
	}{
		{"nothing", nil, "", "7", ""},
		{"nodes in the order of their numbers", []nodeRun{on("7", "n10", 0), on("7", "n2", 0)}, "7:n2,n10", "7", "7:n2,n10"},
		{"jobs in the order of their starts", []nodeRun{on("6", "n1", 0).with(later), on("10", "n1", 0), on("9", "n1", 0)}, "9:n1 10:n1 6:n1", "6", "6:n1"},
		{"two runs of a job", []nodeRun{on("7", "n2", 0).with(later), on("7", "n1", 5)}, "7:n1 7:n2", "7", "7:n2"},
		{"two clusters", []nodeRun{on("7", "n1", 0).with(cluster("b")), on("7", "n2", 0).with(cluster("a"))}, "7:n2 7:n1", "7", "7:n2 7:n1"},
		{"a job that is not there", []nodeRun{on("7", "n1", 0)}, "7:n1", "8", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs := groupRuns(tt.nodes)
			if got := names(runs); got != tt.all {
				t.Errorf("all: %s, want %s", got, tt.all)
			}
			if got := names(Of(runs, tt.id, false)); got != tt.last {
				t.Errorf("last of %s: %s, want %s", tt.id, got, tt.last)
			}
		})
	}
}

// TestCall gives a run the name and the array that Slurm tells of the same run, and finds it by them.
func TestCall(t *testing.T) {
	record := func(cluster, start string) *rundir.Record {
		return &rundir.Record{JobID: "11", Cluster: cluster, Run: rundir.Run{StartTime: start}}
	}
	same := fmt.Sprint(start)
	in := func(cluster, start string) func(*rundir.Record) {
		return func(r *rundir.Record) { r.Cluster, r.StartTime = cluster, start }
	}
	for _, tt := range []struct {
		name  string
		node  nodeRun
		slurm *rundir.Record
		want  bool
	}{
		{"the run", on("11", "n1", 0).with(in("a", same)), record("a", same), true},
		{"a record that knows less", on("11", "n1", 0).with(in("", "")), record("a", same), true},
		{"an answer that knows less", on("11", "n1", 0).with(in("a", same)), record("", ""), true},
		{"an earlier run", on("11", "n1", 0).with(in("a", "5")), record("a", same), false},
		{"another cluster", on("11", "n1", 0).with(in("b", same)), record("a", same), false},
		{"another job", on("9", "n1", 0).with(in("a", same)), record("a", same), false},
		{"a run that has ended", on("11", "n1", 60).with(in("a", same)), record("a", same), false},
	} {
		runs := groupRuns([]nodeRun{tt.node})
		if got := runs[0].Is(tt.slurm); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
	runs := append(groupRuns([]nodeRun{on("11", "n1", 0), on("9", "n1", 0)}), OfSlurm(record("", "")))
	runs[1].Call("train", "9_2", "high")
	for id, want := range map[string]string{"9": "9:n1 9_2:n1", "9_2": "9_2:n1", "11": "9_2:n1 11:", "9_1": "", "_2": "", "": ""} {
		if got := names(Of(runs, id, true)); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	said, array, task := runs[1].report(time.Unix(start, 0)), "9", "2"
	if said.JobName != "train" || said.ArrayJobID != array || said.ArrayTaskID != task || said.QOS != "high" || jobTitle(&runs[1]) != "9_2 (11)" {
		t.Errorf("%+v, %s", said, jobTitle(&runs[1]))
	}
}

// TestGroupRunsOfOneNode prefers a node's summary to its record, and the one that has a
// use.
func TestGroupRunsOfOneNode(t *testing.T) {
	running, ended, endedUsed := on("7", "n1", 0, used("0", 1)), on("7", "n1", 60), on("7", "n1", 60, used("0", 1))
	for name, nodes := range map[string][]nodeRun{
		"record first": {running, ended, endedUsed}, "record last": {endedUsed, ended, running}, "summary without a use first": {ended, running, endedUsed},
	} {
		runs := groupRuns(nodes)
		if len(runs) != 1 || len(runs[0].nodes) != 1 || !runs[0].Ended() || runs[0].nodes[0].use == nil {
			t.Errorf("%s: %+v", name, runs)
		}
	}
}

func TestEnd(t *testing.T) {
	two := func(r *rundir.Record) { r.NumNodes = "2" }
	unknown := func(r *rundir.Record) { r.StartTime = "" }
	for _, tt := range []struct {
		name    string
		nodes   []nodeRun
		ended   bool
		elapsed time.Duration
	}{
		{"runs", []nodeRun{on("7", "n1", 0)}, false, time.Hour},
		{"ended", []nodeRun{on("7", "n1", 60)}, true, time.Minute},
		{"ended on one node of two", []nodeRun{on("7", "n1", 60), on("7", "n2", 0)}, false, time.Hour},
		{"one node of two is known", []nodeRun{on("7", "n1", 60).with(two)}, true, time.Minute},
		{"the last node counts", []nodeRun{on("7", "n1", 60).with(two), on("7", "n2", 90)}, true, 90 * time.Second},
		{"start not known", []nodeRun{on("7", "n1", 60).with(unknown)}, true, 0},
	} {
		r := groupRuns(tt.nodes)[0]
		if r.Ended() != tt.ended || r.elapsed(time.Unix(start+3600, 0)) != tt.elapsed {
			t.Errorf("%s: ended %t, after %s", tt.name, r.Ended(), r.elapsed(time.Unix(start+3600, 0)))
		}
	}
}

func TestTotals(t *testing.T) {
	long := used("2", 0.2)
	long.Utilization.Seconds, long.Energy = 180, new(7200.0)
	for _, tt := range []struct {
		name    string
		devices []rundir.DeviceUse
		want    Totals
	}{
		{"not sampled", []rundir.DeviceUse{unsampled("0")}, Totals{Devices: 1}},
		{"used and idle", []rundir.DeviceUse{used("0", 0.5), idle("1")}, Totals{Devices: 2, NeverUsed: 1, Utilization: new(0.25), Power: new(500.0), IdleSeconds: 60}},
		{"longer samples weigh more", []rundir.DeviceUse{used("0", 0.6), long}, Totals{Devices: 2, Utilization: new(0.3), Power: new(1000.0), Energy: new(7200.0)}},
	} {
		r := groupRuns([]nodeRun{on("7", "n1", 60, tt.devices...)})[0]
		got := r.totals()
		if got.Utilization != nil {
			got.Utilization = new(float64(int(*got.Utilization*1000+0.5)) / 1000)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestAdvice(t *testing.T) {
	two := func(r *rundir.Record) { r.NumNodes = "2" }
	for _, tt := range []struct {
		name string
		node nodeRun
		want string
	}{
		{"all used", on("7", "n1", 60, used("0", 1)), ""},
		{"one unused", on("7", "n1", 60, used("0", 1), idle("1")), "1 of 2 GPUs was never used: n1 GPU 1. Ask for 1 less, or see why the program does not find it."},
		{"two unused so far", on("7", "n1", 0, used("0", 1), idle("1"), idle("2")), "2 of 3 GPUs were not used so far: n1 GPU 1, n1 GPU 2. Ask for 2 less, or see why the program does not find them."},
		{"none used", on("7", "n1", 60, idle("0")), "1 of 1 GPUs was never used: n1 GPU 0. The program may run without a GPU, or not find any."},
		{"none used on one of two nodes", on("7", "", 60, idle("0")).with(two), "1 of 1 GPUs was never used: this node GPU 0. Ask for 1 less, or see why the program does not find it."},
		{"not sampled", on("7", "n1", 60, unsampled("0")), "No sample of n1 GPU 0: the job was too short, or no quoin agent ran."},
	} {
		if got := strings.TrimSpace(strings.Join(advice(&groupRuns([]nodeRun{tt.node})[0]), " ")); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTexts(t *testing.T) {
	for got, want := range map[string]string{
		percent(nil): "-", percent(new(0.555)): "56%",
		memoryText(0, 0): "-", memoryText(3<<29, 80<<30): "1.5/80.0 GiB",
		watts(new(699.6)): "700 W",
		energyText(nil):   "-", energyText(new(3600.0)): "1.0 Wh", energyText(new(36e3)): "10 Wh", energyText(new(3.6e6)): "1.00 kWh", energyText(new(3.6e7)): "10.0 kWh", energyText(new(3.6e8)): "100 kWh",
		clock(59 * time.Second): "00:00:59", clock(26*time.Hour + time.Second): "1-02:00:01",
		few([]string{"a", "b"}): "a, b", few(strings.Split("abcdefghij", "")): "a, b, c, d, e, f, g, h and 2 more",
		Printable("a\x1b[2Jb\u0085\u00e9"): "a?[2Jb?é",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
