package hook

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

func TestParseJob(t *testing.T) {
	for _, tt := range []struct {
		name, job, text string
		want            jobFacts
		err             string
	}{
		{"plain", "7", "JobId=7 JobName=train UserId=u(1000) GroupId=g(1000) Account=phys QOS=normal JobState=RUNNING\n", jobFacts{Name: "train", Account: "phys", QOS: "normal", State: "RUNNING"}, ""},
		{"a QOS in a comment", "7", "JobId=7 JobName=x UserId=u(1) Account=a QOS=low JobState=RUNNING Comment=a QOS=high\n", jobFacts{Name: "x", Account: "a", State: "RUNNING"}, ""},
		{"no QOS", "7", "JobId=7 JobName=x UserId=u(1) Account=a QOS=(null)\n", jobFacts{Name: "x", Account: "a"}, ""},
		{"array task", "8", "JobId=8 ArrayJobId=5 ArrayTaskId=3 ArrayTaskThrottle=2 JobName=sweep UserId=u(1) Account=(null) JobState=RUNNING\n", jobFacts{ArrayJobID: "5", ArrayTaskID: "3", Name: "sweep", State: "RUNNING"}, ""},
		{"all tasks of an array", "5", "JobId=6 ArrayJobId=5 ArrayTaskId=1 JobName=a UserId=u(1) Account=x\nJobId=5 ArrayJobId=5 ArrayTaskId=9 JobName=b UserId=u(1) Account=y\n", jobFacts{ArrayJobID: "5", ArrayTaskID: "9", Name: "b", Account: "y"}, ""},
		{"spaces and signs in the name", "7", "JobId=7 JobName=my = job UserId=u(1) Account=a\n", jobFacts{Name: "my = job", Account: "a"}, ""},
		{"keys in the name", "7", "JobId=7 JobName=x UserId=root(0) Account=rich UserId=u(1) Account=poor\n", jobFacts{Name: "x"}, ""},
		{"an account in the name", "7", "JobId=7 JobName=x Account=rich UserId=u(1) Account=poor\n", jobFacts{Name: "x Account=rich", Account: "poor"}, ""},
		{"an account in a comment", "7", "JobId=7 JobName=x UserId=u(1) Account=poor Comment=a Account=rich\n", jobFacts{Name: "x"}, ""},
		{"an array in the name", "7", "JobId=7 JobName=x ArrayJobId=9 UserId=u(1) Account=a\n", jobFacts{Name: "x ArrayJobId=9", Account: "a"}, ""},
		{"another job", "7", "JobId=77 JobName=x UserId=u(1)\n", jobFacts{}, "no line of the job's"},
		{"nothing", "7", "", jobFacts{}, "no line of the job's"},
		{"cut off", "7", "JobId=7 JobName=x", jobFacts{}, "no UserId"},
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
	return scontrol{Command: writeScript(t, script), Timeout: rundir.Duration(answerWithin)}
}

func TestAsk(t *testing.T) {
	j := scriptedScontrol(t, `[ "$*" = "show job 7 -o" ] && [ "$SLURM_CONF" = /etc/x ] && echo "JobId=7 JobName=train UserId=u(1) Account=a"`)
	if got, err := j.show(t.Context(), "7", "/etc/x"); err != nil || got.Name != "train" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, tt := range map[string]struct{ script, err string }{
		"refused":     {"echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", "exit status 1: slurm_load_jobs error"},
		"no answer":   {"exit 0", "no line of the job's"},
		"endless":     {"exec yes", "no answer within 300ms"},
		"long errors": {"yes | head -c 100000 >&2; exit 1", "exit status 1: y"},
	} {
		j := scriptedScontrol(t, tt.script)
		if name == "endless" {
			j.Timeout = rundir.Duration(300 * time.Millisecond)
		}
		if _, err := j.show(t.Context(), "7", ""); err == nil || !strings.Contains(err.Error(), tt.err) || len(err.Error()) > 1000 {
			t.Errorf("%s: error %v, want %q", name, err, tt.err)
		}
	}
	missing := scontrol{Command: filepath.Join(t.TempDir(), "scontrol")}
	if _, err := missing.show(t.Context(), "7", ""); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing: %v", err)
	}
}

// TestAskTimeout has a command that hangs with a child: both end.
func TestAskTimeout(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	j := scriptedScontrol(t, "sleep 1000 & echo $! >"+pid+".new; mv "+pid+".new "+pid+"; wait")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(pid); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	j.Timeout = rundir.Duration(time.Hour)
	if _, err := j.show(ctx, "7", ""); err == nil {
		t.Error("no error")
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Millisecond) {
		stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(child), "stat"))
		if len(stat) == 0 || strings.Contains(string(stat), ") Z ") {
			break
		}
		if time.Now().After(end) {
			_ = syscall.Kill(child, syscall.SIGKILL)
			t.Fatal("the command's child lives on")
		}
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add("JobId=7 ArrayJobId=5 ArrayTaskId=1 JobName=a b UserId=u(1) Account=x\n")
	f.Fuzz(func(t *testing.T, text string) {
		facts, err := parseJob([]byte(text), "7")
		for _, s := range []string{facts.ArrayJobID, facts.ArrayTaskID, facts.Name, facts.Account, facts.QOS, facts.State} {
			if len(s) > maxName || err != nil && s != "" || strings.ContainsAny(facts.State, " \n") {
				t.Fatalf("%+v, %v", facts, err)
			}
		}
	})
}
