package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/testdata/jobstats"
)

func TestJobstats(t *testing.T) {
	runDir, shared := jobSite(t)
	gib := func(n float64) float64 { return n * (1 << 30) }
	node := func(utilization, used, total map[string]any) map[string]any {
		n := map[string]any{"cpus": 1.0, "total_memory": 0.0, "used_memory": 0.0, "gpu_total_memory": total, "gpu_used_memory": used}
		if utilization != nil {
			n["gpu_utilization"] = utilization
		}
		return n
	}
	two := node(map[string]any{"0": 100.0, "1": 80.0}, map[string]any{"0": gib(70), "1": gib(56)}, map[string]any{"0": gib(80), "1": gib(80)})
	quarter := node(map[string]any{"1": 25.0}, map[string]any{"1": gib(17.5)}, map[string]any{"1": gib(80)})
	for id, want := range map[string]map[string]any{
		"200": {"nodes": map[string]any{"n2": two, "n10": two}, "total_time": 3601.0, "gpus": 4.0},
		"91": {"nodes": map[string]any{"n1": node(nil, map[string]any{"0.7": gib(2), "0.8": 0.0}, map[string]any{"0.7": gib(5), "0.8": gib(5)})},
			"total_time": 93600.0, "gpus": 2.0},
		"300":   {"nodes": map[string]any{"n3": quarter}, "total_time": 60.0, "gpus": 1.0}, // the last run
		"401":   {"nodes": map[string]any{"n3": quarter}, "total_time": 60.0, "gpus": 1.0}, // the task that has the array's id
		"401_1": {"nodes": map[string]any{"n3": quarter}, "total_time": 60.0, "gpus": 1.0},
	} {
		out, said, err := jobOutput(t, jobOptions{runDir: runDir, summaryDirs: []string{shared}, output: jobJobstats}, id)
		if err != nil || said != "" || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: %q, said %q, %v", id, out, said, err)
			continue
		}
		if !strings.HasPrefix(out, "JS1:H4s") {
			t.Errorf("%s: %s: Jobstats' own script takes what begins with H4s", id, out)
		}
		var got map[string]any
		err = jobstats.Unpack(strings.TrimSpace(out), &got)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", id, err, diff)
			continue
		}
		if problem := jobstats.Breaks(got); problem != "" {
			t.Errorf("%s: %s", id, problem)
		}
	}
}

// TestJobstatsWords are the comments of jobs of which there is no sample.
func TestJobstatsWords(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{{59 * time.Second, "JS1:Short"}, {time.Minute, "JS1:None"}} {
		r := jobOn("7", "n1")
		r.GPUs = []string{"0"}
		dir := t.TempDir()
		writeEnded(t, dir, r, nil, tt.after, "")
		if got, _, err := jobOutput(t, jobOptions{runDir: dir, summaryDirs: []string{dir}, output: jobJobstats}, "7"); strings.TrimSpace(got) != tt.want || err != nil {
			t.Errorf("after %s: %s, %v; want %s", tt.after, got, err, tt.want)
		}
	}
}

// FuzzJobstats holds that no sums of samples make a comment that breaks Jobstats.
func FuzzJobstats(f *testing.F) {
	f.Add(uint8(3), 1, 0.5, 1e9, uint64(80<<30), 300.0, true)
	f.Add(uint8(0), 0, 0.0, 0.0, uint64(0), 0.0, false)
	f.Fuzz(func(t *testing.T, devices uint8, samples int, share, used float64, total uint64, joules float64, known bool) {
		for _, v := range []float64{share, used, joules} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return // JSON has none
			}
		}
		r := jobOn("7", "n1")
		u := rundir.Use{JobID: "7", Run: r.Run}
		for i := range devices % 10 {
			d := rundir.DeviceUse{UUID: strings.Repeat("G", int(i)+1), Samples: samples, Energy: &joules}
			if known {
				d.Utilization, d.Memory, d.MemoryTotal = &rundir.Stat{Mean: min(max(share, 0), 1)}, &rundir.Stat{Max: max(used, 0)}, total
			}
			u.Devices = append(u.Devices, d)
		}
		dir := t.TempDir()
		if rundir.CopySummary(dir, rundir.Summary{Key: "7", Record: r, Use: &u, Ended: jobStart.Add(time.Hour).Unix()}) != nil {
			return // no agent writes it
		}
		comment, _, err := jobOutput(t, jobOptions{runDir: dir, summaryDirs: []string{dir}, output: jobJobstats}, "7")
		if err != nil {
			t.Fatal(err)
		}
		comment = strings.TrimSpace(comment)
		if comment == "JS1:None" {
			return
		}
		var summary map[string]any
		if err := jobstats.Unpack(comment, &summary); err != nil {
			t.Fatal(err)
		}
		if problem := jobstats.Breaks(summary); problem != "" {
			t.Fatalf("%s: %v", problem, summary)
		}
	})
}
