package hook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// jobState is what slurmctld says of a job. Unknown values are empty.
type jobState struct {
	ArrayJobID, ArrayTaskID, State string
	// HeldBack says that the job is being put back into the queue, held.
	HeldBack bool
}

const (
	// maxAnswer bounds what is read of an answer, in bytes. Slurm prints all tasks of
	// an array for its first job.
	maxAnswer = 4 << 20
	// maxValue bounds a value of an answer, in bytes.
	maxValue = 256
)

// scontrol runs Slurm's program, each time within the timeout. Only a job that the gate does not let
// pass is worth its calls.
type scontrol struct {
	program string
	timeout time.Duration
}

// show asks slurmctld about a job. slurmConf is the command's SLURM_CONF.
func (c scontrol) show(ctx context.Context, job, slurmConf string) (jobState, error) {
	text, err := c.run(ctx, slurmConf, "show", "job", job, "-o")
	if err != nil {
		return jobState{}, err
	}
	state, err := parseJob(text, job)
	if err != nil {
		return jobState{}, fmt.Errorf("%s show job %s: %w", c.program, job, err)
	}
	return state, nil
}

// requeueHold puts a batch job back into the queue, held, by scontrol requeuehold.
// Another node of the job may have done so already. A component of a heterogeneous
// job is held with its whole job, by the id of its leader.
func (c scontrol) requeueHold(ctx context.Context, job, slurmConf string) error {
	now, err := c.show(ctx, job, slurmConf)
	if err != nil {
		return err
	}
	switch now.State { // a job that is ending would run again
	case "RUNNING", "CONFIGURING":
	case "PENDING", "REQUEUED", "REQUEUE_HOLD":
		return nil
	default:
		if now.HeldBack { // by another node; the job completes first
			return nil
		}
		return fmt.Errorf("hold job %s: it is %s", job, cmp.Or(now.State, "in a state that is not known"))
	}
	if now.ArrayJobID != "" { // the raw id of an array's last task names the whole array
		if _, err := strconv.ParseUint(now.ArrayTaskID, 10, 32); err != nil {
			return fmt.Errorf("hold job %s: task %q of array %s: want a number", job, now.ArrayTaskID, now.ArrayJobID)
		}
		job = now.ArrayJobID + "_" + now.ArrayTaskID
	}
	if _, err := c.run(ctx, slurmConf, "requeuehold", job); err != nil && !strings.Contains(err.Error(), "pending execution") {
		return err
	}
	return nil
}

// run runs the command and returns its output. The command and its children end at the
// timeout. The error has the command's complaint.
func (c scontrol) run(ctx context.Context, slurmConf string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, args...) //nolint:gosec // root's file names it
	cmd.Env = []string{"SLURM_TIME_FORMAT=%s"}
	if slurmConf != "" {
		cmd.Env = append(cmd.Env, "SLURM_CONF="+slurmConf)
	}
	// A process group of its own, so that all of it ends, also when the hook does.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = c.timeout // a child may keep the pipe open; less would lose answers on a busy machine
	var out, complaint limited
	out.left, complaint.left = maxAnswer, 500
	cmd.Stdout, cmd.Stderr = &out, &complaint
	runtime.LockOSThread() // Pdeathsig is sent when the starting thread ends
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no answer within %s", c.timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", c.program, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
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
// into a name or a comment: if a line has two states, neither is sure.
func parseJob(text []byte, job string) (jobState, error) {
	line := jobLine(text, job)
	head, tail, ok := strings.Cut(line, " JobName=")
	if !ok {
		return jobState{}, errors.New("the answer has no line of the job's")
	}
	_, rest, _ := strings.Cut(tail, " UserId=")
	s := jobState{ArrayJobID: field(head, "ArrayJobId"), ArrayTaskID: field(head, "ArrayTaskId"),
		HeldBack: strings.Contains(strings.ReplaceAll(rest, "_", " "), "job requeued in held state")}
	if strings.Count(line, " JobState=") == 1 {
		s.State = field(rest, "JobState")
	}
	return s, nil
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

func field(text, key string) string {
	_, after, ok := strings.Cut(" "+text, " "+key+"=")
	value, _, _ := strings.Cut(after, " ")
	if !ok || value == "(null)" || value == "N/A" || len(value) > maxValue {
		return ""
	}
	return strings.ToValidUTF8(value, "")
}

// spread returns how long to wait before slurmctld is asked. The nodes of one job
// ask at most a thousand times a second, and wait at most a second.
func spread(numNodes string) time.Duration {
	n, err := strconv.ParseUint(numNodes, 10, 32)
	if err != nil || n < 2 {
		return 0
	}
	return rand.N(min(time.Duration(n)*time.Millisecond, time.Second)) //nolint:gosec // no secret
}
