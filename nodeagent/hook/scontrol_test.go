package hook

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseJob(t *testing.T) {
	for _, tt := range []struct {
		name, job, text string
		want            jobState
		err             string
	}{
		{"plain", "7", "JobId=7 JobName=train UserId=u(1000) GroupId=g(1000) Account=phys JobState=RUNNING\n", jobState{State: "RUNNING"}, ""},
		{"array task", "8", "JobId=8 ArrayJobId=5 ArrayTaskId=3 ArrayTaskThrottle=2 JobName=sweep UserId=u(1) JobState=RUNNING\n", jobState{ArrayJobID: "5", ArrayTaskID: "3", State: "RUNNING"}, ""},
		{"all tasks of an array", "5", "JobId=6 ArrayJobId=5 ArrayTaskId=1 JobName=a UserId=u(1)\nJobId=5 ArrayJobId=5 ArrayTaskId=9 JobName=b UserId=u(1) JobState=COMPLETING\n", jobState{ArrayJobID: "5", ArrayTaskID: "9", State: "COMPLETING"}, ""},
		{"an array's first, and the job", "7", "JobId=6 JobName=x UserId=u(1) JobState=PENDING\nJobId=7 JobName=x UserId=u(1) JobState=RUNNING\n", jobState{State: "RUNNING"}, ""},
		{"put back", "7", "JobId=7 JobName=x UserId=u(1) JobState=COMPLETING Reason=job_requeued_in_held_state\n", jobState{State: "COMPLETING", HeldBack: true}, ""},
		{"a job with the name of a reason", "7", "JobId=7 JobName=job requeued in held state UserId=u(1) JobState=COMPLETING\n", jobState{State: "COMPLETING"}, ""},
		{"an array in the name", "7", "JobId=7 JobName=x ArrayJobId=9 UserId=u(1) JobState=RUNNING\n", jobState{State: "RUNNING"}, ""},
		{"a state in the name", "7", "JobId=7 JobName=x JobState=COMPLETED UserId=u(1) JobState=RUNNING\n", jobState{}, ""},
		{"a user in the name", "7", "JobId=7 JobName=x UserId=u(1) JobState=COMPLETED UserId=u(1) JobState=RUNNING\n", jobState{}, ""},
		{"a state in the comment", "7", "JobId=7 JobName=x UserId=u(1) JobState=RUNNING Comment=a JobState=FAILED\n", jobState{}, ""},
		{"cut off", "7", "JobId=7 JobName=x UserId=u(1)", jobState{}, ""},
		{"cut off before the state", "7", "JobId=7 JobName=x", jobState{}, ""},
		{"another job", "7", "JobId=77 JobName=x UserId=u(1)\n", jobState{}, "no line of the job's"},
		{"nothing", "7", "", jobState{}, "no line of the job's"},
	} {
		got, err := parseJob([]byte(tt.text), tt.job)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
	}
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

// writeScript returns a script that can be run at once.
func writeScript(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "scontrol")
	// No process that starts meanwhile may inherit the open file: a program that
	// somebody writes to cannot be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/bash\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// answerWithin is how long a test waits for a program that answers, however busy the machine is.
const answerWithin = 5 * time.Minute

func scriptedScontrol(t *testing.T, script string) scontrol {
	t.Helper()
	return scontrol{writeScript(t, script), answerWithin}
}

func TestAsk(t *testing.T) {
	j := scriptedScontrol(t, `[ "$*" = "show job 7 -o" ] && [ "$SLURM_CONF" = /etc/x ] && echo "JobId=7 JobName=train UserId=u(1) JobState=RUNNING"`)
	if got, err := j.show(t.Context(), "7", "/etc/x"); err != nil || got.State != "RUNNING" {
		t.Errorf("%+v, %v", got, err)
	}
	for script, want := range map[string]string{
		"echo slurm_load_jobs error: Invalid job id specified >&2; exit 1": "exit status 1: slurm_load_jobs error",
		"exit 0":   "no line of the job's",
		"exec yes": "an answer of more than 4096 KiB",
	} {
		if _, err := scriptedScontrol(t, script).show(t.Context(), "7", ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", script, err, want)
		}
	}
	missing := scontrol{filepath.Join(t.TempDir(), "scontrol"), answerWithin}
	if _, err := missing.show(t.Context(), "7", ""); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing: %v", err)
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add("JobId=7 ArrayJobId=5 ArrayTaskId=1 JobName=a b UserId=u(1) Account=x\n")
	f.Fuzz(func(t *testing.T, text string) {
		facts, err := parseJob([]byte(text), "7")
		for _, s := range []string{facts.ArrayJobID, facts.ArrayTaskID, facts.State} {
			if len(s) > maxValue || err != nil && s != "" || strings.ContainsAny(facts.State, " \n") {
				t.Fatalf("%+v, %v", facts, err)
			}
		}
	})
}
