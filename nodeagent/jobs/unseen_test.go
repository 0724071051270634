package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
)

// contained is a Prolog's record of a job that is to have an external step.
func (r *jobsRig) contained(id string, gpu int) {
	r.t.Helper()
	rec := r.record(id, gpu)
	rec.Contain, rec.EndTime = true, "2000000000"
	r.write(id, rec)
	r.must(dcgm.Mapping{Dir: r.maps}.Add(id, rec.GPUs))
	r.j.round(r.t.Context())
}

// TestUnseenProlog leaves a job alone while its Prolog may still run, whether the Prolog is
// seen or not. Later it takes the job's labels away. The labels come back with the step.
func TestUnseenProlog(t *testing.T) {
	for _, slurmd := range []string{"seen", "not seen", "not to be told"} {
		r := newJobsRig(t)
		r.Listen("n1_16.4294967292")
		r.prolog("16", 3)
		switch slurmd {
		case "seen":
			r.Process(8, "slurmd", "S", 1, "")
			r.Process(9, "prolog.sh", "S", 8, "SLURM_JOB_ID=17")
		case "not to be told":
			r.Process(8, "slurmd", "S", 1, "")
			r.Process(9, "prolog.sh", "S", 8, "-")
		}
		r.contained("17", 0)
		r.prolog("18", 1)
		for range 2 { // between two scripts of a Prolog nothing runs
			r.after(2 * time.Minute)
			if slurmd == "not to be told" {
				r.Ends(9)
				r.after(10 * time.Second)
				r.Process(9, "prolog.sh", "S", 8, "-")
			}
		}
		r.after(40 * time.Second)
		r.start()
		r.after(4*time.Minute + 50*time.Second)
		r.want("in its Prolog, slurmd "+slurmd, "0:17 1:18 3:16")
		if slurmd == "seen" {
			r.after(time.Hour)
			r.want("in its Prolog, which is seen", "0:17 1:18 3:16")
			r.Ends(9)
			r.after(20 * time.Second)
			r.want("within the grace after it", "0:17 1:18 3:16")
		}
		r.after(30 * time.Second)
		r.want("its Prolog is over", "1:18 3:16")
		if got := jobLines(scrape(t, handler(r.j, processSeries()))); strings.Contains(got, `job_id="17"`) || !strings.Contains(got, `job_id="18"`) {
			t.Errorf("series\n%s", got)
		}
		r.start()
		r.after(time.Hour)
		r.want("another agent", "1:18 3:16")
		r.Listen("n1_17.4294967292")
		r.after(10 * time.Second)
		r.want("its step has come", "0:17 1:18 3:16")
		r.HangUp("n1_17.4294967292")
		r.after(40 * time.Second)
		r.want("and gone", "1:18 3:16")
	}
}

// TestUnseenWithinAMinute takes the labels of a job that ended unseen within a
// minute where slurmd shows that no Prolog of it runs, over a restart too, and
// forgets it in the end: by what slurmd's children run for, and where that is not
// the agent's to read by slurmd's having none.
func TestUnseenWithinAMinute(t *testing.T) {
	for _, readable := range []bool{true, false} {
		r := newJobsRig(t)
		if readable {
			r.Process(8, "slurmd", "S", 1, "")
			r.Process(9, "prolog.sh", "S", 8, "SLURM_JOB_ID=99")
		} else {
			r.Process(8, "slurmd", "S", 1, "-")
			r.Process(9, "slurmstepd", "S", 8, "-")
		}
		r.Listen("n1_16.4294967292")
		r.prolog("16", 3)
		r.contained("17", 0)
		r.after(20 * time.Second)
		r.want("for twenty seconds", "0:17 3:16")
		r.start()
		r.after(20 * time.Second)
		r.want("after forty, another agent", "3:16")
		r.contained("17", 0) // the same run's Prolog runs again: slurmd was started anew
		r.want("its Prolog has run again", "0:17 3:16")
		r.after(50 * time.Second)
		r.want("and it has ended unseen again", "3:16")
		r.after(23 * time.Hour)
		if !r.hasRecord("17") {
			t.Error("the record is gone, and with it what the labels would come back by")
		}
		r.after(2 * time.Hour)
		if r.hasRecord("17") {
			t.Error("the record stays for ever")
		}
	}
}

// TestPodKilled kills slurmd's pod before a step of its job was seen, beside a job of
// another pod and one of a hook that does not know its pod. Slurm may say for hours that
// the job runs.
func TestPodKilled(t *testing.T) {
	r := newJobsRig(t)
	start := func(pid int, ticks uint64) {
		r.Process(pid, "init", "S", 1, "-")
		r.must(os.WriteFile(filepath.Join(r.Proc, fmt.Sprint(pid), "stat"), fmt.Appendf(nil, "%d (init) S 1%s %d 0\n", pid, strings.Repeat(" 0", 17), ticks), 0o600))
	}
	prolog := func(id string, gpu int, ticks uint64) {
		rec := r.record(id, gpu)
		rec.Contain, rec.EndTime, rec.InitStart = true, "2000000000", ticks
		r.write(id, rec)
		r.must(dcgm.Mapping{Dir: r.maps}.Add(id, rec.GPUs))
		r.j.round(r.t.Context())
	}
	start(100, 5000)
	start(200, 6000)
	prolog("13", 3, 4000) // of a pod that the agent has never seen
	prolog("16", 2, 6000)
	prolog("17", 0, 5000)
	r.contained("18", 1)
	r.after(14 * time.Second)
	r.Ends(100)
	start(101, 7000)
	r.after(10 * time.Second)
	r.start()
	r.want("killed just now, another agent", "0:17 1:18 2:16 3:13")
	r.after(30 * time.Second)
	r.want("within a minute", "1:18 2:16 3:13")
	prolog("17", 0, 7000)
	r.after(time.Hour)
	r.want("it runs in the next pod", "0:17 1:18 2:16 3:13")
	prolog("17", 0, 6000)
	r.Ends(101)
	r.after(time.Minute)
	r.want("its Prolog ran again in another pod", "0:17 1:18 2:16 3:13")
}

// TestEpilogRuns leaves a job to its Epilog for as long as that runs.
func TestEpilogRuns(t *testing.T) {
	r := newJobsRig(t)
	r.Process(8, "slurmd", "S", 1, "")
	r.Listen("n1_17.4294967292")
	r.prolog("17", 0)
	r.after(10 * time.Second)
	r.HangUp("n1_17.4294967292")
	r.Process(9, "epilog.sh", "S", 8, "SLURM_JOB_ID=17")
	r.after(5 * time.Minute)
	if r.want("its Epilog runs", "0:17"); !r.hasRecord("17") {
		t.Error("its Epilog will not find the record")
	}
	r.Ends(9)
	r.after(10 * time.Second)
	r.want("it was killed", "0:17")
	r.after(30 * time.Second)
	r.want("half a minute ago", "")
}

// TestUnseenInAnotherPod sees a job by the control groups of a slurmd's pod that
// came after many searches, before it could be given up.
func TestUnseenInAnotherPod(t *testing.T) {
	r := newJobsRig(t)
	scope := func(pod string) string { return "kubepods.slice/" + pod + "/slurmstepd.scope/" }
	step := func(pod, job string) {
		r.Group(scope(pod)+"job_"+job, "cgroup.events", "populated 1\n")
		r.Group(scope(pod) + "job_" + job + "/step_extern")
	}
	r.Process(8, "slurmd", "S", 1, "")
	step("pod1", "16")
	r.prolog("16", 3)
	r.after(time.Minute)
	r.prolog("13", 2) // never seen: it is searched for ever more seldom
	r.after(30 * time.Minute)
	for i := range 8 { // at other times between two searches
		gone := i >= 4
		if i == 4 {
			r.must(os.RemoveAll(filepath.Join(r.Cgroup, "kubepods.slice/pod1")))
			r.contained("14", 1)
			r.after(20 * time.Minute)
			if !strings.Contains(r.lines(), "14") {
				t.Error("the only groups are gone, which could have shown job 14: it has lost its label")
			}
		}
		r.after(time.Duration(i%4) * 30 * time.Second)
		pod, job := fmt.Sprint("pod2-", i), fmt.Sprint(20+i)
		r.contained(job, 0)
		step(pod, job)
		for range 12 {
			r.after(10 * time.Second)
			if !strings.Contains(r.lines(), job) {
				t.Fatalf("pod 1 gone %v: job %s, whose step lives, has lost its label", gone, job)
			}
		}
		r.must(os.RemoveAll(filepath.Join(r.Cgroup, "kubepods.slice", pod)))
		r.after(time.Minute)
		if strings.Contains(r.lines(), job) {
			t.Errorf("pod 1 gone %v: job %s keeps its label without its pod", gone, job)
		}
	}
}
