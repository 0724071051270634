package hook

import (
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// environment is what Slurm says of a job to its Prolog and Epilog.
type environment func(key string) string

func (env environment) identity() rundir.JobIdentity {
	return rundir.JobIdentity{JobID: env("SLURM_JOB_ID"), Cluster: env("SLURM_CLUSTER_NAME"), Node: env("SLURMD_NODENAME")}
}

// run names the run by SLUID and start time: Slurm may be upgraded between a Prolog
// and its Epilog.
func (env environment) run() rundir.Run {
	return rundir.Run{SLUID: env("SLURM_JOB_SLUID"), StartTime: env("SLURM_JOB_START_TIME")}
}

// hasGPUs says whether Slurm has given the job GPUs of this node.
func (env environment) hasGPUs() bool {
	return env("SLURM_JOB_GPUS") != "" || len(rundir.UUIDsIn(env("CUDA_VISIBLE_DEVICES"))) > 0
}

// exitCode is the job's, as code:signal; empty if Slurm does not say it.
func (env environment) exitCode() string {
	if code, signal, ok := strings.Cut(env("SLURM_JOB_EXIT_CODE2"), ":"); ok && isByte(code) && isByte(signal) {
		return code + ":" + signal
	}
	return ""
}

// endTime is when the job ended: an Epilog may run much later.
func (env environment) endTime() time.Time {
	now := time.Now()
	seconds, err := strconv.ParseInt(env("SLURM_JOB_END_TIME"), 10, 64)
	start := env.run().Started()
	if at := time.Unix(seconds, 0); err == nil && !start.IsZero() && !at.Before(start) && at.Before(now) {
		return at
	}
	return now
}

func isByte(s string) bool {
	_, err := strconv.ParseUint(s, 10, 8)
	return err == nil
}
