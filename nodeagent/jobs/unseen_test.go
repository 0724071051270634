package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
)

// endless is a Prolog of a job that has no planned end.
func (r *jobsRig) endless(id string, gpu int) {
	r.t.Helper()
	rec := r.record(id, gpu)
	rec.EndTime = "0"
	r.write(id, rec)
	r.must(dcgm.Mapping{Dir: r.maps}.Set(id, rec.GPUs))
	r.j.round(r.t.Context())
}

// TestUnseenProlog leaves a job alone while its Prolog may still run. Later it takes the
// job's labels away. The labels come back with the step.
func TestUnseenProlog(t *testing.T) {
	script := nodedir.Process{PID: 9, Parent: 8, Name: "prolog.sh"}
	for _, seen := range []bool{true, false} {
		r := newJobsRig(t)
		if seen {
			r.slurmd()
			r.Process(script)
		}
		r.after(time.Minute)
		r.Step("16.extern")
		r.endless("16", 3)
		r.endless("17", 0)
		for range 2 { // between two scripts of a Prolog nothing runs
			r.after(2 * time.Minute)
			if seen {
				r.Ends(9)
				r.after(10 * time.Second)
				r.Process(script)
			}
		}
		r.after(40 * time.Second)
		r.start()
		r.after(4*time.Minute + 50*time.Second)
		r.want("in its Prolog", "0:17 3:16")
		r.after(30 * time.Second)
		r.want("after ten minutes", "3:16")
		if got := jobLines(scrape(t, handler(r.j, processSeries()))); strings.Contains(got, `job_id="17"`) || !strings.Contains(got, `job_id="16"`) {
			t.Errorf("series\n%s", got)
		}
		r.start()
		r.after(time.Hour)
		r.want("another agent", "3:16")
		r.Step("17.extern")
		r.after(10 * time.Second)
		r.want("its step has come", "0:17 3:16")
		r.StepEnds("17.extern")
		r.after(40 * time.Second)
		r.want("and gone", "3:16")
	}
}

// TestUnseenWithinAMinute takes the labels of a job that ended unseen within a
// minute if no Prolog runs, over a restart too, and forgets the job in the end.
func TestUnseenWithinAMinute(t *testing.T) {
	r := newJobsRig(t)
	r.slurmd()
	r.endless("17", 0)
	r.Step("16.extern")
	r.endless("16", 3)
	r.after(10 * time.Second)
	r.want("for ten seconds", "0:17 3:16")
	r.start()
	r.after(20 * time.Second)
	r.want("after thirty, another agent", "3:16")
	r.endless("17", 0) // the same run's Prolog runs again: slurmd was started anew
	r.want("its Prolog has run again", "0:17 3:16")
	r.after(50 * time.Second)
	r.want("and it has ended unseen again", "3:16")
	r.Process(nodedir.Process{PID: 9, Parent: 8, Name: "prolog.sh"})
	r.after(time.Minute)
	r.want("another job's Prolog runs", "3:16")
	r.after(23 * time.Hour)
	if !r.hasRecord("17") {
		t.Error("the record is gone, and with it what the labels would come back by")
	}
	r.after(2 * time.Hour)
	if r.hasRecord("17") {
		t.Error("the record stays for ever")
	}
}

// TestUnseenWithoutContain leaves a job alone that has no step, such as one of salloc, if its slurmd starts
// no external steps, or has begun to do so since.
func TestUnseenWithoutContain(t *testing.T) {
	r := newJobsRig(t)
	r.slurmd()
	r.endless("17", 0)
	r.Step("16.batch")
	r.endless("16", 3)
	r.after(time.Hour)
	r.slurmd() // with PrologFlags=Contain
	r.after(time.Minute)
	r.Step("18.extern")
	r.endless("18", 1)
	r.after(time.Hour)
	r.want("an hour later", "0:17 1:18 3:16")
	r.slurmd()
	r.after(time.Minute)
	r.endless("19", 2)
	r.after(time.Minute)
	r.want("under the next slurmd", "0:17 1:18 3:16")
}
