//go:build cgo

package node_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	fake "github.com/quoin-hpc/quoin/testdata/nvml"
	"github.com/quoin-hpc/quoin/testdata/rig/programs"
)

// TestNVMLHardwareOfJob follows a counter of one NVLink from the library to what quoin job
// says: while the job runs, and from the summary that its Epilog leaves.
func TestNVMLHardwareOfJob(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "h100", "gpu 3", "field 162:9 1000")
	m.RealBoot()
	p := newAgentProcess(t)
	agent := p.onNVML(programs.QuoinTest(t), 580, m, "50ms")
	agent.Args = append(agent.Args, "--set", "agent.sampleInterval=100ms", "--set", "agent.sweepInterval=100ms")
	p.start(agent)
	p.until("inventory", func() bool { return p.settled() && p.metric("quoin_agent_probe_up") == 1 })
	run := filepath.Join(p.dir, "run")
	programs.PutTest(t, p.dir, programs.Hook)
	hook := func(verb string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(p.dir, "quoin-hook"), verb, "--run-dir", run, "--mapping-dir", p.node.Mapping())
		cmd.Env = []string{"SLURM_JOB_ID=4711", "SLURM_JOB_GPUS=0,1,2,3,4,5,6,7", "SLURM_JOB_START_TIME=1790000000", "SLURMD_NODENAME=n07", "SLURM_JOB_NODELIST=n07", "SLURM_JOB_END_TIME=2000000000"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", verb, err, out)
		}
	}
	job := func() string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), programs.QuoinTest(t), "job", "4711", "--set", "agent.runDir="+run).CombinedOutput()
		if err != nil {
			t.Fatalf("quoin job: %v\n%s", err, out)
		}
		return string(out)
	}
	hook("prolog")
	p.until("a first sample", func() bool {
		use, err := rundir.Dir(run).Uses().Read("4711")
		return err == nil && use != nil && len(use.Devices) == 8 && use.Devices[0].Counting != nil
	})
	m.Change("gpu 3", "field 162:9 1412")
	const want = "GPU 3 of n07: 412 NVLink recoveries on link 9; the others 0.\n"
	p.until("the job's recoveries", func() bool { return strings.Contains(job(), want) })
	hook("epilog")
	if said := job(); !strings.Contains(said, want) || !strings.Contains(said, "State     ended") {
		t.Errorf("quoin job of the summary:\n%s", said)
	}
	if n := p.metric(`quoin_gpu_held_errors_total{GPU_I_ID="",UUID="GPU-01000100-0000-0000-0000-000000000003",counter="nvlink_recoveries",gpu="3"}`); n != 412 {
		t.Errorf("series says %g recoveries, want 412", n)
	}
}
