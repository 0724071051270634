package hook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/child"
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

// scontrol runs Slurm's program, each time within the timeout. The gate runs it for a job that is to be
// held, and for no other.
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

// run runs the program within the timeout, and returns what it prints.
func (c scontrol) run(ctx context.Context, slurmConf string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	p := child.Program{Path: c.program, Args: args, Env: []string{}, Most: maxAnswer}
	if slurmConf != "" {
		p.Env = append(p.Env, "SLURM_CONF="+slurmConf)
	}
	text, err := p.Output(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", c.program, strings.Join(args, " "), err)
	}
	return text, nil
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
