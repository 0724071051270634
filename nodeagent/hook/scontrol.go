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

// jobFacts are what slurmctld knows of a job and the Prolog's environment lacks.
// Unknown facts are empty.
type jobFacts struct {
	ArrayJobID, ArrayTaskID, Name, Account string
}

const (
	// maxAnswer bounds what is read of an answer, in bytes. Slurm prints all tasks of
	// an array for its first job.
	maxAnswer = 4 << 20
	// maxName bounds a job's name, in bytes.
	maxName = 256
)

// scontrol is how slurmctld is asked, each time within the timeout.
type scontrol rundir.JobInfo

// ask asks slurmctld about a job by one bounded `scontrol show job`. The command and
// its children end at the timeout. slurmConf is the command's SLURM_CONF.
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

// show returns what scontrol prints of a job, and its complaint beside an error.
func (j scontrol) show(ctx context.Context, job, slurmConf string) (text []byte, said string, err error) {
	text, said, err = j.run(ctx, slurmConf, "show", "job", job, "-o")
	if err != nil {
		return nil, said, fmt.Errorf("ask %s about the job: %w: %s", j.Command, err, said)
	}
	return text, "", nil
}

// run runs the command and returns its output and its complaint.
func (j scontrol) run(ctx context.Context, slurmConf string, args ...string) (text []byte, said string, err error) {
	timeout := time.Duration(j.Timeout)
	if timeout == 0 {
		timeout = rundir.DefaultJobInfoTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, j.Command, args...) //nolint:gosec // root's file names it
	cmd.Env = []string{"SLURM_TIME_FORMAT=%s"}
	if slurmConf != "" {
		cmd.Env = append(cmd.Env, "SLURM_CONF="+slurmConf)
	}
	// A process group of its own, so that all of it ends, also when the hook does.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = timeout // a child may keep the pipe open; less would lose answers on a busy machine
	var out, complaint limited
	out.left, complaint.left = maxAnswer, 500
	cmd.Stdout, cmd.Stderr = &out, &complaint
	runtime.LockOSThread() // Pdeathsig is sent when the starting thread ends
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no answer within %s", timeout)
	}
	return out.Bytes(), strings.TrimSpace(complaint.String()), err
}

// limited keeps the first bytes that are written.
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

// ReadFrom hides the method of the buffer, which has no limit.
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
	// A user may have put a key into a name: only what comes before it is sure.
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

// jobLine returns the job's line of the answer, or nothing.
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
