package node_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/jobs/report"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// sampleInterval lets jobs of some seconds have samples.
const sampleInterval = "1s"

// usedMachines are what all agents of a rig simulate: the order of the devices is
// not NVML's, and a job uses every GPU in the same way.
const usedMachines = `name: rig
groups:
- racks: 1
  nodes: 3
  node: "n{node:02}"
  gpus: {count: 8, product: NVIDIA H200, memoryMiB: 143771, minors: [2, 3, 0, 1, 6, 7, 4, 5]}
  use: {processes: 1, utilization: 40, memoryMiB: 2048, power: 300}
`

// sampled waits until the job has samples of every GPU on each of its nodes.
func (r *jobsRig) sampled(job string) {
	r.t.Helper()
	r.until("job "+job+" is sampled on all its nodes", func() bool {
		found := false
		for _, n := range r.nodes {
			record, err := rundir.Dir(r.path("run-" + n.Name)).ReadRecord(job)
			if record == nil || err != nil {
				continue
			}
			found = true
			use, err := rundir.Dir(r.path("run-" + n.Name)).Uses().Read(job)
			if use == nil || err != nil || len(use.Devices) != len(record.GPUs) || slices.ContainsFunc(use.Devices, func(d rundir.DeviceUse) bool { return d.Seconds == 0 }) {
				return false
			}
		}
		return found
	})
}

// compareUse waits until an ended job has a summary of each node, and compares what quoin job says of its
// GPUs. gpus are how many GPUs of the job each node has.
func (r *jobsRig) compareUse(job string, gpus map[string]int) {
	r.t.Helper()
	var ended report.Report
	r.until("summaries of job "+job, func() bool {
		out, err := exec.CommandContext(r.t.Context(), r.quoin, "job", job, "--set", "agent.runDir="+r.path("run-n01"), "--summary-dir", r.path("summaries"), "-o", "json").Output()
		var reports struct {
			Runs []report.Report `json:"runs"`
		}
		if err != nil || json.Unmarshal(out, &reports) != nil {
			return false
		}
		at := slices.IndexFunc(reports.Runs, func(run report.Report) bool { return run.JobID == job })
		if at < 0 || reports.Runs[at].Running || len(reports.Runs[at].Nodes) != len(gpus) {
			return false
		}
		ended = reports.Runs[at]
		return true
	})
	got := map[string]int{}
	for _, n := range ended.Nodes {
		got[n.Node] = len(n.Devices)
		for _, d := range n.Devices {
			if d.Utilization == nil || math.Abs(d.Utilization.Mean-0.4) > 0.0005 || d.Memory == nil || d.Memory.Max != 2<<30 || d.MemoryTotal != 143771<<20 {
				r.t.Errorf("job %s, node %s, GPU %s: %+v, want 40%%, 2 GiB of 143771 MiB", job, n.Node, d.ExporterID, d)
			}
		}
	}
	if diff := cmp.Diff(gpus, got); diff != "" {
		r.t.Errorf("job %s: GPUs by node (-want +got):\n%s", job, diff)
	}
}

// compareEnded compares what is known of jobs that have ended, by kind.
func (r *jobsRig) compareEnded(jobs map[string][]string) {
	r.t.Helper()
	het, wide := jobs["heterogeneous"], jobs["several nodes"][0]
	r.compareUse(jobs["single"][0], map[string]int{"n01": 1})
	r.compareUse(wide, map[string]int{"n01": 1, "n02": 1, "n03": 1})
	for _, task := range jobs["array"] {
		r.compareUse(task, map[string]int{"n02": 1})
	}
	r.compareUse(het[0], map[string]int{"n01": 1})
	r.compareUse(het[1], map[string]int{"n02": 2})
	r.comparePrinted(wide)
}

// comparePrinted runs quoin job on a job of all nodes that has ended.
func (r *jobsRig) comparePrinted(job string) {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), r.quoin, "job", job, "--set", "agent.runDir="+r.path("run-n01"), "--summary-dir", r.path("summaries")).CombinedOutput()
	if err != nil {
		r.t.Errorf("quoin job %s: %v\n%s", job, err, out)
		return
	}
	for _, want := range []string{"Job       " + job, "n01, n02, n03", "partition main", "cluster rig", "40%"} {
		if !strings.Contains(string(out), want) {
			r.t.Errorf("quoin job %s lacks %q:\n%s", job, want, out)
		}
	}
}

// compareSummaries looks for the summary of every run whose hooks did their work.
func (r *jobsRig) compareSummaries(w *jobsWatch) {
	r.t.Helper()
	r.until("the agents have made and copied all summaries", func() bool {
		return !slices.ContainsFunc(r.nodes, func(n *jobNode) bool {
			endings, err := rundir.Dir(r.path("run-" + n.Name)).Endings()
			uncopied, _ := filepath.Glob(r.path("run-" + n.Name + "/uncopied/*.json"))
			return len(endings) > 0 || len(uncopied) > 0 || err != nil
		})
	})
	all, err := rundir.ReadSummaries(r.path("summaries"))
	if err != nil {
		r.t.Error(err)
	}
	type run struct{ node, job, start string }
	found := map[run][]rundir.Summary{}
	for i := range all {
		key := run{all[i].Record.Node, all[i].Record.JobID, all[i].Record.StartTime}
		found[key] = append(found[key], all[i])
	}
	compared, wrong := 0, 0
	for _, h := range w.holds {
		if h.disturbed || h.over.IsZero() || len(h.gpus) == 0 {
			continue
		}
		compared++
		if why := compareSummary(h, found[run{h.node, h.job, h.run}]); why != "" {
			if wrong++; wrong < 10 {
				r.t.Errorf("job %s on node %s, run %s: %s", h.job, h.node, h.run, why)
			}
		}
	}
	r.t.Logf("%d summaries of %d runs; %d compared", len(all), len(w.holds), compared)
	if compared == 0 {
		r.t.Error("no run was left alone")
	}
}

func compareSummary(h *hold, found []rundir.Summary) string {
	if len(found) != 1 {
		return fmt.Sprintf("%d summaries, want one", len(found))
	}
	s := &found[0]
	gpus, want := slices.Sorted(slices.Values(s.Record.GPUs)), slices.Sorted(slices.Values(h.gpus))
	start, _ := strconv.ParseInt(h.run, 10, 64)
	switch {
	case !slices.Equal(gpus, want):
		return fmt.Sprintf("GPUs %v, want %v", gpus, want)
	case s.Ended < start || s.Ended > h.over.Unix()+1:
		return fmt.Sprintf("ended %d, want %d to %d", s.Ended, start, h.over.Unix())
	case s.Use != nil && s.Use.JobID != h.job:
		return "the use of job " + s.Use.JobID
	}
	return ""
}
