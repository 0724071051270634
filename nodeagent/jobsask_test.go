package nodeagent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
)

// slurmSays answers by job id, and notes what it was asked.
type slurmSays struct {
	states map[string]dcgm.JobState
	err    error
	asked  []string
}

func (s *slurmSays) AskState(_ context.Context, job, conf string) (dcgm.JobState, error) {
	s.asked = append(s.asked, job+" by "+conf)
	return s.states[job], s.err
}

// afterAnswers is after, with a look after each answer, as Run has it.
func (r *jobsRig) afterAnswers(d time.Duration) {
	for range d / (5 * time.Second) {
		r.after(5 * time.Second)
		for r.j.asked {
			r.j.hear(<-r.j.answers)
			r.j.round(r.t.Context())
		}
	}
}

// uncontained is a Prolog's record where Slurm keeps no external steps.
func (r *jobsRig) uncontained(id string, gpu int) {
	r.t.Helper()
	rec := r.record(id, gpu)
	rec.SlurmConf, rec.EndTime = "/etc/slurm/slurm.conf", "2000000000"
	r.write(id, rec)
	r.must(dcgm.Mapping{Dir: r.maps, RunDir: r.run}.Add(id, rec.GPUs))
	r.j.round(r.t.Context())
}

// TestAskSlurm releases a job within a minute of which the node shows nothing and
// Slurm that it has ended; one that is seen is not asked about, and one without an
// answer lives.
func TestAskSlurm(t *testing.T) {
	r := newJobsRig(t)
	says := &slurmSays{states: map[string]dcgm.JobState{"17": {State: "RUNNING"}, "18": {State: "RUNNING"}}}
	r.j.config.Slurm = says
	r.listen("n1_18.0")
	r.uncontained("17", 0)
	r.uncontained("18", 1)
	other := r.record("19", 2) // of a hook that has not said by which slurm.conf
	r.write("19", other)
	r.must(dcgm.Mapping{Dir: r.maps, RunDir: r.run}.Add("19", other.GPUs))
	r.afterAnswers(20 * time.Second)
	if len(says.asked) > 0 {
		t.Errorf("asked at once: %v", says.asked)
	}
	r.afterAnswers(10 * time.Minute)
	r.want("both run", "0:17 1:18 2:19")
	if n := len(says.asked); n < 15 || n > 24 || slices.ContainsFunc(says.asked, func(q string) bool { return q != "17 by /etc/slurm/slurm.conf" }) {
		t.Errorf("%d questions in ten minutes: %q", n, says.asked)
	}
	says.err = errors.New("slurmctld is down")
	before := len(says.asked)
	r.afterAnswers(2 * time.Hour)
	r.want("no answer", "0:17 1:18 2:19")
	if n := len(says.asked) - before; n < 10 || n > 20 {
		t.Errorf("%d questions in two hours without an answer", n)
	}
	says.err = nil
	r.afterAnswers(11 * time.Minute)
	says.states["17"], says.states["18"] = dcgm.JobState{State: "COMPLETED"}, dcgm.JobState{}
	unlock, err := dcgm.Lock(t.Context(), r.run, time.Second) // a hook that hangs
	r.must(err)
	r.afterAnswers(40 * time.Second)
	r.want("17 has ended, and a hook has the lock", "0:17 1:18 2:19")
	unlock()
	r.after(10 * time.Second)
	r.want("17 has ended by Slurm's word", "1:18 2:19")
	if s := r.summaries(); len(s) != 1 || s[0].Record.JobID != "17" || r.j.counts.released[releasedSlurm] != 1 {
		t.Errorf("summaries %+v, released %v", s, r.j.counts.released)
	}
	r.hangUp("n1_18.0")
	r.afterAnswers(50 * time.Second)
	r.want("18 is seen no longer, and Slurm does not know it", "2:19")
}

// TestAskOfAnotherRun does not end a run by what Slurm said of the one before.
func TestAskOfAnotherRun(t *testing.T) {
	r := newJobsRig(t)
	r.j.config.Slurm = &slurmSays{}
	r.uncontained("17", 0)
	for !r.j.asked {
		r.after(5 * time.Second)
	}
	a := <-r.j.answers
	rec := r.record("17", 1)
	rec.StartTime = "200"
	r.write("17", rec)
	r.must(dcgm.Mapping{Dir: r.maps, RunDir: r.run}.Add("17", rec.GPUs))
	r.j.round(r.t.Context())
	r.j.hear(a)
	r.after(10 * time.Second)
	if !strings.Contains(r.lines(), "1:17") || !r.hasRecord("17") {
		t.Errorf("the second run has lost its label: %s", r.lines())
	}
}
