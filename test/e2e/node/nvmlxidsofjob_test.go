//go:build cgo

package node_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// nvmlJob is a job of eight H100 on an agent of a loaded NVML. Its only samples are those that
// come when the job begins and ends.
type nvmlJob struct {
	*agentProcess
	m       *fake.Machine
	run, id string
}

func newNVMLJob(t *testing.T) *nvmlJob {
	t.Helper()
	m := fake.New(t, "h100")
	m.RealBoot()
	p := newAgentProcess(t)
	agent := p.onNVML(programs.QuoinTest(t), 580, m, "50ms")
	agent.Args = append(agent.Args, "--times", "sample: 1h", "--times", "sweep: 100ms")
	p.start(agent)
	p.until("report and inventory", func() bool { return p.hasInventory() && p.settled() && p.metric("quoin_agent_probe_up") == 1 })
	return &nvmlJob{p, m, filepath.Join(p.dir, "run"), "4711"}
}

func (j *nvmlJob) hook(verb string) string {
	j.t.Helper()
	var uuids []string
	for i := range 8 {
		uuids = append(uuids, fmt.Sprintf("GPU-01000100-0000-0000-0000-%012d", i))
	}
	code, said := j.agentProcess.hook(verb, "SLURM_JOB_ID="+j.id, "SLURM_JOB_GPUS=0,1,2,3,4,5,6,7", "SLURM_JOB_START_TIME=1790000000", "SLURMD_NODENAME=n07", "SLURM_JOB_NODELIST=n07",
		"SLURM_JOB_END_TIME=2000000000", "CUDA_VISIBLE_DEVICES="+strings.Join(uuids, ","))
	if code != 0 {
		j.t.Fatalf("%s: %d\n%s", verb, code, said)
	}
	return said
}

// begin runs the Prolog, and waits for the first sample.
func (j *nvmlJob) begin() {
	j.t.Helper()
	j.hook("prolog")
	j.until("a first sample", func() bool {
		use, err := rundir.Dir(j.run).Uses().Read(j.id)
		return err == nil && use != nil && len(use.Devices) == 8 && use.Devices[0].Xids != nil
	})
}

// said is what quoin job says.
func (j *nvmlJob) said() string {
	j.t.Helper()
	out, err := exec.CommandContext(j.t.Context(), programs.QuoinTest(j.t), "job", j.id, "--set", "agent.runDir="+j.run).CombinedOutput()
	if err != nil {
		j.t.Fatalf("quoin job: %v\n%s", err, out)
	}
	return string(out)
}

// TestNVMLPrologWarnsOfLinks warns of a GPU that has fewer NVLinks than the others.
func TestNVMLPrologWarnsOfLinks(t *testing.T) {
	t.Parallel()
	j := newNVMLJob(t)
	if said := j.hook("prolog"); said != "" {
		t.Errorf("the Prolog of a sound node says %q", said)
	}
	j.hook("epilog")
	j.m.Change("gpu 3", "links 9 off")
	j.until("the fault in the inventory", func() bool {
		inv, err := rundir.Dir(j.run).ReadInventory()
		return err == nil && len(inv.Faults) > 0
	})
	j.id = "4712"
	if said := j.hook("prolog"); !strings.HasPrefix(said, "quoin-hook: job 4712: warning: LinksDown: ") || !strings.HasSuffix(said, "; the job starts all the same\n") {
		t.Errorf("the next Prolog says %q", said)
	}
}

// TestNVMLLastErrorOfJob takes no sample while the job runs but the first, which comes with
// the Prolog. The error that ends the job is in the sample that comes with the Epilog.
func TestNVMLLastErrorOfJob(t *testing.T) {
	t.Parallel()
	j := newNVMLJob(t)
	j.begin()
	j.m.Change("gpu 3", "xid 119")
	j.until("the Xid", func() bool { return strings.Contains(j.report(), "Xid 119") })
	j.hook("epilog")
	const want = "Xid 119 (GSP does not answer) on GPU 3 of n07: drain the node and reset the GPU.\n"
	j.until("the error in the summary", func() bool { return strings.Contains(j.said(), want) })
	const warning = "GPU GPU-01000100-0000-0000-0000-000000000003 had Xid 119, GSP does not answer: drain the node and reset the GPU"
	j.id = "4712"
	if said := j.hook("prolog"); said != "quoin-hook: job 4712: warning: "+warning+"; the job starts all the same\n" {
		t.Errorf("the next Prolog says %q", said)
	}
	if said := j.said(); !strings.Contains(said, "When the job began on n07: "+warning+".\n") {
		t.Errorf("quoin job of the next job:\n%s", said)
	}
}

// TestNVMLGPULostInJob: a GPU falls off the bus and the job ends. Its Xid is known.
func TestNVMLGPULostInJob(t *testing.T) {
	t.Parallel()
	j := newNVMLJob(t)
	j.begin()
	j.m.Change("gpu 3", "xid 79")
	j.until("the Xid", func() bool { return strings.Contains(j.report(), "Xid 79") })
	j.m.Change("gpu 3", "lost", "xid 79")
	j.until("the GPU is lost", func() bool { return strings.Contains(j.report(), "GPUUnreadable") })
	j.hook("epilog")
	j.until("the Xid in the summary", func() bool {
		return strings.Contains(j.said(), "Xid 79 (GPU has fallen off the bus) on GPU 3 of n07: drain the node and restart the machine.\n")
	})
}
