package hook

import (
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

func (p *place) scontrol(script string) {
	p.t.Helper()
	p.wait = time.Minute
	config := rundir.HookConfig{MappingDir: p.mapping, JobInfo: &rundir.JobInfo{Command: writeScript(p.t, script), Timeout: rundir.Duration(time.Minute)}}
	if err := rundir.Dir(p.run).WriteHookConfig(config); err != nil {
		p.t.Fatal(err)
	}
}

// TestJobInfo asks slurmctld when the label is there already.
func TestJobInfo(t *testing.T) {
	p := newPlace(t)
	p.inventory("0", "1")
	p.scontrol(`[ "$(cat ` + p.mapping + `/0)" = 7 ] || exit 1
echo "JobId=7 ArrayJobId=5 ArrayTaskId=2 JobName=my job UserId=u(1) Account=acct QOS=high JobState=RUNNING"`)
	if said := p.hook("prolog", "7", "SLURM_JOB_GPUS=0", "SLURM_JOB_NUM_NODES=3"); said != "" {
		t.Errorf("said %q", said)
	}
	r, err := rundir.Dir(p.run).ReadRecord("7")
	if err != nil || r == nil || r.ArrayJobID != "5" || r.ArrayTaskID != "2" || r.JobName != "my job" || r.Account != "acct" || r.QOS != "high" || len(r.GPUs) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	p.hook("prolog", "7", "SLURM_JOB_GPUS=0", "SLURM_JOB_ACCOUNT=own", "SLURM_JOB_QOS=low")
	if r, err := rundir.Dir(p.run).ReadRecord("7"); err != nil || r == nil || r.Account != "own" || r.QOS != "low" || r.JobName != "my job" {
		t.Errorf("an account that the environment says: %+v, %v", r, err)
	}
	// The job ends while slurmctld is asked: its record must not come back.
	p.scontrol(`rm ` + p.run + `/jobs/8.json; echo "JobId=8 JobName=x UserId=u(1)"`)
	p.hook("prolog", "8", "SLURM_JOB_GPUS=1")
	if r, err := rundir.Dir(p.run).ReadRecord("8"); r != nil || err != nil {
		t.Errorf("the record is back: %+v, %v", r, err)
	}
	p.scontrol("echo no such thing >&2; exit 1")
	if said := p.hook("prolog", "7", "SLURM_JOB_GPUS=1", "SLURM_JOB_START_TIME=9"); !strings.Contains(said, "no such thing; the record has no job name") {
		t.Errorf("said %q", said)
	}
	p.check("slurmctld does not answer", map[string]string{"0": "\n", "1": "7\n8\n"})
}

// TestSpread has the nodes of one job ask slurmctld a thousand times a second at
// most.
func TestSpread(t *testing.T) {
	for numNodes, most := range map[string]time.Duration{"": 0, "x": 0, "-5": 0, "0": 0, "1": 0, "2": 2 * time.Millisecond, "1000": time.Second, "4000000000": time.Second} {
		var largest time.Duration
		for range 1000 {
			largest = max(largest, spread(numNodes))
		}
		if largest >= most && most > 0 || largest < most/2 {
			t.Errorf("%s nodes wait up to %s, want up to %s", numNodes, largest, most)
		}
	}
}
