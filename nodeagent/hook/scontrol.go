package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// jobFacts are what slurmctld knows of a job beside the Prolog's environment.
// What it does not say is empty.
type jobFacts struct {
	ArrayJobID, ArrayTaskID, Name, Account string
}

const (
	// maxAnswer bounds what is read of an answer: for an array's first job Slurm
	// prints all its tasks.
	maxAnswer = 4 << 20
	// maxName bounds a job's name, in bytes.
	maxName = 256
)

// scontrol is how slurmctld is asked, each time within the timeout.
type scontrol rundir.JobInfo

// ask asks slurmctld about a job by one bounded `scontrol show job`. The command
// and what it has started end at the timeout. slurmConf is its SLURM_CONF.
func (j scontrol) ask(ctx context.Context, job, slurmConf string) (jobFacts, error) {
	text, _, err := j.show(ctx, job, slurmConf)
	if err != nil {
		return jobFacts{}, err
	}
	facts, err := parseJob(text, job)
	if err != nil {
		return jobFacts{}, fmt.Errorf("ask %s about the job: %w", j.Command, err)
	}
	return facts, nil
}

// show returns what scontrol says of a job, and how it complains beside an error.
func (j scontrol) show(ctx context.Context, job, slurmConf string) (text []byte, said string, err error) {
	text, said, err = j.run(ctx, slurmConf, "show", "job", job, "-o")
	if err != nil {
		return nil, said, fmt.Errorf("ask %s about the job: %w: %s", j.Command, err, said)
	}
	return text, "", nil
}

// run runs the command, and returns what it says and how it complains.
func (j scontrol) run(ctx context.Context, slurmConf string, args ...string) (text []byte, said string, err error) {
	timeout := time.Duration(j.Timeout)
	if timeout == 0 {
		timeout = rundir.DefaultJobInfoTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, j.Command, args...) //nolint:gosec // it is the site's, from a file of root's
	cmd.Env = []string{"SLURM_TIME_FORMAT=%s"}
	if slurmConf != "" {
		cmd.Env = append(cmd.Env, "SLURM_CONF="+slurmConf)
	}
	// A group of its own, which ends whole, and with the hook.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 50 * time.Millisecond // its child may keep the pipe
	var out, complaint limited
	out.left, complaint.left = maxAnswer, 500
	cmd.Stdout, cmd.Stderr = &out, &complaint
	runtime.LockOSThread() // Pdeathsig is of the thread that starts it
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no answer within %s", timeout)
	}
	return out.Bytes(), strings.TrimSpace(complaint.String()), err
}

// limited keeps the first bytes that are written to it.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	_, err := l.Buffer.Write(p[:n])
	return len(p), err
}

// ReadFrom hides the buffer's, which has no limit.
func (l *limited) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{l}, r)
}

// parseJob reads the job's line of `scontrol show job -o`: KEY=VALUE with spaces
// between, and spaces and equal signs in names that users choose.
func parseJob(text []byte, job string) (jobFacts, error) {
	head, tail, ok := strings.Cut(string(jobLine(text, job)), " JobName=")
	if !ok {
		return jobFacts{}, errors.New("the answer has no line of the job's")
	}
	facts := jobFacts{ArrayJobID: field(head, "ArrayJobId"), ArrayTaskID: field(head, "ArrayTaskId")}
	// Where a user has put a key into a name, only what comes before it is sure.
	name, rest, ok := strings.Cut(tail, " UserId=")
	if !ok {
		return jobFacts{}, errors.New("the job's line has no UserId after its JobName")
	}
	facts.Name = strings.ToValidUTF8(name[:min(len(name), maxName)], "")
	if !strings.Contains(rest, " UserId=") && strings.Count(rest, " Account=") == 1 {
		facts.Account = field(rest, "Account")
	}
	return facts, nil
}

// jobLine returns the line of the answer that is of the job, empty without one.
func jobLine(text []byte, job string) []byte {
	for l := range bytes.Lines(text) {
		if bytes.HasPrefix(l, []byte("JobId="+job+" ")) {
			return bytes.TrimRight(l, "\r\n")
		}
	}
	return nil
}

func field(text, key string) string {
	_, after, ok := strings.Cut(" "+text, " "+key+"=")
	value, _, _ := strings.Cut(after, " ")
	if !ok || value == "(null)" || value == "N/A" || len(value) > maxName {
		return ""
	}
	return strings.ToValidUTF8(value, "")
}
