package node_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/jobs/report"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// jobJSONOf is what quoin job prints of a job with one run on one node; nil while it
// is not known.
func (n *hookedNode) jobJSONOf(job string) *report.Report {
	n.t.Helper()
	out, err := exec.Command(n.quoin, "job", job, "--set", "agent.runDir="+n.run(), "-o", "json").Output()
	if err != nil {
		return nil
	}
	var reports struct {
		Runs []report.Report `json:"runs"`
	}
	if err := json.Unmarshal(out, &reports); err != nil {
		n.t.Fatal(err)
	}
	if len(reports.Runs) != 1 || len(reports.Runs[0].Nodes) != 1 {
		return nil
	}
	return &reports.Runs[0]
}

// TestJobFromSampleToSummary follows a job through agent, probe, hook and quoin job:
// a GPU that it uses and one that it does not, until its summary is there.
func TestJobFromSampleToSummary(t *testing.T) {
	t.Parallel()
	n := newHookedNode(t)
	n.change("faults:\n- {node: n1, gpu: 1, use: {processes: 1, utilization: 80, smActivity: 40, memoryMiB: 1024, power: 500}}\n")
	n.startAgent()
	n.until("the inventory", n.hasInventory)
	n.Step("7.extern")
	begun := time.Now()
	n.call("prolog", "7", []string{"0", "1"}, 0)
	var last *report.Report
	n.until("samples of both GPUs", func() bool {
		last = n.jobJSONOf("7")
		return last != nil && len(last.Nodes[0].Devices) == 2 && last.Nodes[0].Devices[0].Samples > 10 && last.Nodes[0].Devices[1].Samples > 10
	})
	check := func(r *report.Report, running bool) {
		t.Helper()
		idle, busy := &r.Nodes[0].Devices[0], &r.Nodes[0].Devices[1]
		if r.Running != running || r.User != "alice" || idle.Used || idle.IdleSeconds != idle.Seconds || idle.Seconds < 0.5 || r.Totals.NeverUsed != 1 {
			t.Errorf("job %+v\nGPU 0 %+v", r, idle)
		}
		if !busy.Used || busy.IdleSeconds != 0 || busy.Utilization == nil || busy.Utilization.Mean < 0.799 || busy.Utilization.Max != 0.8 || busy.SMActivity.Max != 0.4 || busy.Memory.Max != 1<<30 {
			t.Errorf("GPU 1 %+v", busy)
		}
		// The counter has the time at which a sample was taken, the seconds have the
		// time at which it came. It speaks for three intervals at most.
		const late = 3 * 0.1
		if all := time.Since(begun).Seconds(); *busy.Energy < 400*(busy.Seconds-late) || *busy.Energy > 500*(all+late) {
			t.Errorf("%g J of 500 W in %g s, sampled %g s", *busy.Energy, all, busy.Seconds)
		}
	}
	check(last, true)

	n.StepEnds("7.extern")
	n.call("epilog", "7", []string{"0", "1"}, 0)
	ended := n.jobJSONOf("7")
	if ended == nil || ended.Nodes[0].Devices[0].Samples < last.Nodes[0].Devices[0].Samples {
		t.Fatalf("after the Epilog: %+v", ended)
	}
	check(ended, false)
	if _, err := os.Stat(n.run("use", "7.json")); !errors.Is(err, fs.ErrNotExist) {
		n.until("the use to go", func() bool { u, err := rundir.Dir(n.run()).Uses().Read("7"); return u == nil && err == nil })
	}
}
