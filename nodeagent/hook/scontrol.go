package hook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// jobFacts are what slurmctld knows of a job and the Prolog's environment lacks.
// Unknown facts are empty.
type jobFacts struct {
	ArrayJobID, ArrayTaskID, Name, Account, QOS, State string
	// HeldBack says that the job is being put back into the queue, held.
	HeldBack bool
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

// show asks slurmctld about a job by one bounded `scontrol show job`. slurmConf is the
// command's SLURM_CONF.
func (j scontrol) show(ctx context.Context, job, slurmConf string) (jobFacts, error) {
	text, err := j.run(ctx, slurmConf, "show", "job", job, "-o")
	if err != nil {
		return jobFacts{}, err
	}
	facts, err := parseJob(text, job)
	if err != nil {
		return jobFacts{}, fmt.Errorf("%s show job %s: %w", j.Command, job, err)
	}
	return facts, nil
}

// requeueHold puts a batch job back into the queue, held, by scontrol requeuehold.
// Another node of the job may have done so already. A component of a heterogeneous
// job is held with its whole job, by the id of its leader.
func (j scontrol) requeueHold(ctx context.Context, job, slurmConf string) error {
	facts, err := j.show(ctx, job, slurmConf)
	if err != nil {
		return err
	}
	switch facts.State { // a job that is ending would run again
	case "RUNNING", "CONFIGURING":
	case "PENDING", "REQUEUED", "REQUEUE_HOLD":
		return nil
	default:
		if facts.HeldBack { // by another node; the job completes first
			return nil
		}
		return fmt.Errorf("hold job %s: it is %s", job, cmp.Or(facts.State, "in a state that is not known"))
	}
	if facts.ArrayJobID != "" { // the raw id of an array's last task names the whole array
		if _, err := strconv.ParseUint(facts.ArrayTaskID, 10, 32); err != nil {
			return fmt.Errorf("hold job %s: task %q of array %s: want a number", job, facts.ArrayTaskID, facts.ArrayJobID)
		}
		job = facts.ArrayJobID + "_" + facts.ArrayTaskID
	}
	if _, err := j.run(ctx, slurmConf, "requeuehold", job); err != nil && !strings.Contains(err.Error(), "pending execution") {
		return err
	}
	return nil
}

// run runs the command and returns its output. The command and its children end at the
// timeout. The error has the command's complaint.
func (j scontrol) run(ctx context.Context, slurmConf string, args ...string) ([]byte, error) {
	timeout := cmp.Or(time.Duration(j.Timeout), rundir.DefaultJobInfoTimeout)
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
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no answer within %s", timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", j.Command, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.Bytes(), nil
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
// between, and spaces and equal signs in names that users choose. A user can put a key
// into a name or a comment: if a line has two of a key, neither is sure.
func parseJob(text []byte, job string) (jobFacts, error) {
	line := jobLine(text, job)
	head, tail, ok := strings.Cut(line, " JobName=")
	if !ok {
		return jobFacts{}, errors.New("the answer has no line of the job's")
	}
	name, rest, ok := strings.Cut(tail, " UserId=")
	if !ok {
		return jobFacts{}, errors.New("the job's line has no UserId after its JobName")
	}
	facts := jobFacts{ArrayJobID: field(head, "ArrayJobId"), ArrayTaskID: field(head, "ArrayTaskId"), Name: strings.ToValidUTF8(name[:min(len(name), maxName)], ""),
		HeldBack: strings.Contains(strings.ReplaceAll(rest, "_", " "), "job requeued in held state")}
	if !strings.Contains(rest, " UserId=") {
		facts.Account, facts.QOS = onlyField(rest, "Account"), onlyField(rest, "QOS")
	}
	if strings.Count(line, " JobState=") == 1 {
		facts.State = field(rest, "JobState")
	}
	return facts, nil
}

// jobLine returns the job's line of the answer, or nothing.
func jobLine(text []byte, job string) string {
	for l := range bytes.Lines(text) {
		if bytes.HasPrefix(l, []byte("JobId="+job+" ")) {
			return string(bytes.TrimRight(l, "\r\n"))
		}
	}
	return ""
}

// onlyField returns the value of a key that is there once.
func onlyField(text, key string) string {
	if strings.Count(text, " "+key+"=") != 1 {
		return ""
	}
	return field(text, key)
}

func field(text, key string) string {
	_, after, ok := strings.Cut(" "+text, " "+key+"=")
	value, _, _ := strings.Cut(after, " ")
	if !ok || value == "(null)" || value == "N/A" || len(value) > maxName {
		return ""
	}
	return strings.ToValidUTF8(value, "")
}
