package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHold names to scontrol what Slurm takes: for the raw id of an array's last
// task it would put the whole array back.
func TestHold(t *testing.T) {
	line := func(job, array string) string {
		return fmt.Sprintf("JobId=%s %sJobName=x UserId=u(1) JobState=RUNNING", job, array)
	}
	for _, tt := range []struct{ name, answer, hold, asked, err string }{
		{"a batch job", line("7", ""), "exit 0", "requeuehold 7", ""},
		{"a task", line("7", "ArrayJobId=5 ArrayTaskId=2 "), "exit 0", "requeuehold 5_2", ""},
		{"an array's last task", line("6", "ArrayJobId=7 ArrayTaskId=0 ") + "\n" + line("7", "ArrayJobId=7 ArrayTaskId=1 "), "exit 0", "requeuehold 7_1", ""},
		{"tasks that have no raw id yet", line("7", "ArrayJobId=7 ArrayTaskId=0-1 "), "exit 0", "", `task "0-1" of array 7`},
		{"an answer of another job", line("8", ""), "exit 0", "", "no line of the job's"},
		{"a job of two states", line("7", "") + " Comment=x JobState=FAILED", "exit 0", "", "in a state that is not known"},
		{"a job that was cancelled", strings.Replace(line("7", ""), "RUNNING", "COMPLETING", 1), "exit 0", "", "it is COMPLETING"},
		{"one that another node is putting back", strings.Replace(line("7", ""), "RUNNING", "COMPLETING Reason=job_requeued_in_held_state", 1), "exit 0", "", ""},
		{"one that another node has put back", strings.Replace(line("7", ""), "RUNNING", "PENDING", 1), "exit 0", "", ""},
		{"another node was first", line("7", ""), "echo Job is pending execution for job 7 >&2; exit 1", "requeuehold 7", ""},
		{"an interactive job", line("7", ""), "echo Only batch jobs are accepted or processed for job 7 >&2; exit 1", "requeuehold 7", "Only batch jobs"},
		{"slurmctld is away", line("7", ""), "sleep 600", "requeuehold 7", "no answer in time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			asked := filepath.Join(t.TempDir(), "asked")
			script := fmt.Sprintf("if [ $1 = show ]; then echo %q; exit; fi\necho $SLURM_CONF $* >%s\n%s\n", tt.answer, asked, tt.hold)
			command := writeScript(t, strings.ReplaceAll(script, `\n`, "\n"))
			timeout := answerWithin
			if strings.Contains(tt.hold, "sleep") {
				timeout = 10 * time.Second // by then the first question has its answer
			}
			err := scontrol{command, timeout}.requeueHold(t.Context(), "7", "/conf")
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			want := ""
			if tt.asked != "" {
				want = "/conf " + tt.asked
			}
			if text, _ := os.ReadFile(asked); strings.TrimSpace(string(text)) != want {
				t.Errorf("asked %q, want %q", text, want)
			}
		})
	}
}
