package dcgm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
)

// JobState is what slurmctld says of a job now.
type JobState struct {
	// State is Slurm's word for it, empty for a job that slurmctld does not know.
	State string
	// StartTime is in seconds since 1970, NodeList as Slurm writes it; empty where
	// the answer does not say them for sure.
	StartTime, NodeList string
}

// unknownJob is what scontrol says of a job that slurmctld has forgotten, which it
// does some minutes after the end (MinJobAge), or has never known.
const unknownJob = "Invalid job id specified"

// AskState asks slurmctld by one bounded `scontrol show job` whether a job lives.
func (j JobInfo) AskState(ctx context.Context, job, slurmConf string) (JobState, error) {
	text, said, err := j.show(ctx, job, slurmConf)
	switch {
	case err != nil && strings.Contains(said, unknownJob):
		return JobState{}, nil
	case err != nil:
		return JobState{}, err
	}
	state, err := parseJobState(text, job)
	if err != nil {
		return JobState{}, fmt.Errorf("ask %s about the job: %w", j.Command, err)
	}
	return state, nil
}

// parseJobState reads the job's line. A user can put a key into a name or comment:
// what is there twice is not sure, and without a sure state there is none.
func parseJobState(text []byte, job string) (JobState, error) {
	line := jobLine(text, job)
	_, rest, ok := bytes.Cut(line, []byte(" UserId="))
	if !ok {
		return JobState{}, errors.New("the answer has no line of the job's")
	}
	sure := func(key string) string {
		if bytes.Count(line, []byte(" "+key+"=")) != 1 {
			return ""
		}
		return field(string(rest), key)
	}
	s := JobState{State: sure("JobState"), StartTime: sure("StartTime"), NodeList: sure("NodeList")}
	if s.State == "" {
		return JobState{}, errors.New("the job's line has no JobState, or more than one")
	}
	return s, nil
}

// ended are the states of a job that holds nothing. Others, and those of later
// releases, hold something or may.
var ended = map[string]bool{
	"BOOT_FAIL": true, "CANCELLED": true, "COMPLETED": true, "DEADLINE": true, "FAILED": true, "LAUNCH_FAILED": true,
	"NODE_FAIL": true, "OUT_OF_MEMORY": true, "PENDING": true, "PREEMPTED": true, "REQUEUED": true, "REQUEUE_HOLD": true,
	"REQUEUE_FED": true, "REVOKED": true, "SPECIAL_EXIT": true, "TIMEOUT": true,
}

// Ended says whether the run of a record is over: where the job waits, has ended or
// is not known any more, and where it runs a later time on other nodes. A later
// start on the same nodes is no proof: it is set anew when nodes have been booted for
// the job.
func (s JobState) Ended(r *Record) bool {
	if s.State == "" || ended[s.State] {
		return true
	}
	return s.NodeList != "" && r.NodeList != "" && s.NodeList != r.NodeList && Run{StartTime: s.StartTime}.After(Run{StartTime: r.StartTime})
}
