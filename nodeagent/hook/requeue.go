package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// requeueHold puts a batch job back into the queue, held, by scontrol requeuehold.
// Another node of the job may have done so already. A component of a heterogeneous
// job is held with its whole job, by the id of its leader.
func (j scontrol) requeueHold(ctx context.Context, job, slurmConf string) error {
	text, _, err := j.show(ctx, job, slurmConf)
	if err != nil {
		return err
	}
	facts, err := parseJob(text, job)
	if err != nil {
		return fmt.Errorf("ask %s about the job: %w", j.Command, err)
	}
	state, err := parseState(text, job)
	if err != nil {
		return fmt.Errorf("ask %s about the job: %w", j.Command, err)
	}
	// If another node has put the job back already, it completes first.
	back := strings.Contains(strings.ReplaceAll(string(jobLine(text, job)), "_", " "), "job requeued in held state")
	switch state { // a job that is ending would run again
	case "RUNNING", "CONFIGURING":
	case "PENDING", "REQUEUED", "REQUEUE_HOLD":
		return nil
	default:
		if back {
			return nil
		}
		return fmt.Errorf("hold job %s: it is %s", job, state)
	}
	if facts.ArrayJobID != "" { // the raw id of an array's last task names the whole array
		if _, err := strconv.ParseUint(facts.ArrayTaskID, 10, 32); err != nil {
			return fmt.Errorf("hold job %s: task %q of array %s: want a number", job, facts.ArrayTaskID, facts.ArrayJobID)
		}
		job = facts.ArrayJobID + "_" + facts.ArrayTaskID
	}
	_, said, err := j.run(ctx, slurmConf, "requeuehold", job)
	if err != nil && !strings.Contains(said, "pending execution") {
		return fmt.Errorf("%s requeuehold %s: %w: %s", j.Command, job, err, said)
	}
	return nil
}

// parseState reads the state from the job's line. A user can put a key into a name
// or a comment: if a line has two states, neither is sure.
func parseState(text []byte, job string) (string, error) {
	line := jobLine(text, job)
	_, rest, ok := bytes.Cut(line, []byte(" UserId="))
	if !ok {
		return "", errors.New("the answer has no line of the job's")
	}
	state := field(string(rest), "JobState")
	if state == "" || bytes.Count(line, []byte(" JobState=")) != 1 {
		return "", errors.New("the job's line has no JobState, or more than one")
	}
	return state, nil
}
