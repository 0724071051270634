package dcgm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseJobState(t *testing.T) {
	const rest = " StartTime=1780000000 EndTime=Unknown Partition=p ReqNodeList=(null) ExcNodeList=(null) NodeList=n[1-2] BatchHost=n1\n"
	for _, tt := range []struct {
		name, text string
		want       JobState
		err        string
	}{
		{"runs", "JobId=7 JobName=x UserId=u(1) JobState=RUNNING" + rest, JobState{"RUNNING", "1780000000", "n[1-2]"}, ""},
		{"its array's first", "JobId=6 JobName=x UserId=u(1) JobState=PENDING\nJobId=7 JobName=x UserId=u(1) JobState=RUNNING" + rest, JobState{"RUNNING", "1780000000", "n[1-2]"}, ""},
		{"waits", "JobId=7 JobName=x UserId=u(1) JobState=PENDING StartTime=Unknown NodeList=\n", JobState{State: "PENDING", StartTime: "Unknown"}, ""},
		{"a state in the name", "JobId=7 JobName=x JobState=COMPLETED UserId=u(1) JobState=RUNNING" + rest, JobState{}, "more than one"},
		{"a user in the name", "JobId=7 JobName=x UserId=u(1) JobState=COMPLETED UserId=u(1) JobState=RUNNING" + rest, JobState{}, "more than one"},
		{"a state in the comment", "JobId=7 JobName=x UserId=u(1) JobState=RUNNING Comment=a JobState=FAILED" + rest, JobState{}, "more than one"},
		{"nodes in the comment", "JobId=7 JobName=x UserId=u(1) JobState=RUNNING Comment=a NodeList=n9" + rest, JobState{State: "RUNNING", StartTime: "1780000000"}, ""},
		{"another job", "JobId=77 JobName=x UserId=u(1) JobState=COMPLETED\n", JobState{}, "no line of the job's"},
		{"nothing", "", JobState{}, "no line of the job's"},
		{"cut off", "JobId=7 JobName=x UserId=u(1)", JobState{}, "no JobState"},
	} {
		got, err := parseJobState([]byte(tt.text), "7")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
	}
}

func TestJobStateEnded(t *testing.T) {
	r := &Record{Run: Run{StartTime: "100"}, NodeList: "n[1-2]"}
	for _, tt := range []struct {
		name string
		s    JobState
		want bool
	}{
		{"not known", JobState{}, true},
		{"has ended", JobState{"TIMEOUT", "100", "n[1-2]"}, true},
		{"waits again", JobState{"PENDING", "Unknown", ""}, true},
		{"runs", JobState{"RUNNING", "100", "n[1-2]"}, false},
		{"completes", JobState{"COMPLETING", "100", "n[1-2]"}, false},
		{"a word of a later release", JobState{"EXPEDITED", "100", "n[1-2]"}, false},
		{"runs again elsewhere", JobState{"RUNNING", "200", "n[3-4]"}, true},
		{"runs again here, or began again when its nodes were up", JobState{"RUNNING", "200", "n[1-2]"}, false},
		{"was shrunk", JobState{"RUNNING", "100", "n2"}, false},
		{"an earlier run than the record's", JobState{"RUNNING", "50", "n9"}, false},
		{"its nodes are not sure", JobState{"RUNNING", "200", ""}, false},
	} {
		if got := tt.s.Ended(r); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

func TestAskState(t *testing.T) {
	j := scontrol(t, `[ "$* $SLURM_TIME_FORMAT $SLURM_CONF" = "show job 7 -o %s /etc/x" ] && echo "JobId=7 JobName=train UserId=u(1) JobState=RUNNING"`)
	if got, err := j.AskState(t.Context(), "7", "/etc/x"); err != nil || got.State != "RUNNING" {
		t.Errorf("%+v, %v", got, err)
	}
	j = scontrol(t, "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1")
	if got, err := j.AskState(t.Context(), "7", ""); err != nil || got != (JobState{}) {
		t.Errorf("a job that is not known: %+v, %v", got, err)
	}
	for _, script := range []string{"echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1", "exit 0", "echo Invalid job id specified", "kill -9 $$"} {
		j = scontrol(t, script)
		if got, err := j.AskState(t.Context(), "7", ""); err == nil {
			t.Errorf("%s: %+v", script, got)
		}
	}
}

func FuzzParseJobState(f *testing.F) {
	f.Add("JobId=7 JobName=a b UserId=u(1) JobState=RUNNING StartTime=1 NodeList=n1\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseJobState([]byte(text), "7")
		if (err == nil) != (s.State != "") || strings.ContainsAny(s.State+s.NodeList, " \n") {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}
