package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent"
)

// jobsOptions are the flags of quoin agent that are about jobs and their hook.
type jobsOptions struct {
	sampleEvery, sweepEvery, hookWait time.Duration
	spools, cgroupRoot                string
	hookUnlink                        bool
	jobInfo, summaryDir               string
	gate                              string
	gateWait                          time.Duration
}

func (o *jobsOptions) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.sampleEvery, "sample-interval", 10*time.Second, "time between two samples of the GPUs that jobs hold")
	f.DurationVar(&o.sweepEvery, "sweep-interval", 10*time.Second, "time between two looks for jobs that have ended without their Epilog")
	f.StringVar(&o.spools, "slurmd-spool", "", "slurmd's SlurmdSpoolDir as this process sees it, without % patterns; several with commas; default: var/spool/slurmd of --host-root")
	f.StringVar(&o.cgroupRoot, "cgroup-root", "", "`directory` where the machine's control groups are mounted; default: sys/fs/cgroup of --host-root")
	f.BoolVar(&o.hookUnlink, "hook-unlink", false, "let the hook release a GPU by removing its file and not by emptying it, for DCGM Exporter before 4.3.1")
	f.DurationVar(&o.hookWait, "hook-wait", dcgm.DefaultWait, "the longest that a call of the hook may hold up a job or a node")
	f.StringVar(&o.jobInfo, "hook-job-info", "", "absolute path of scontrol: the hook asks it once per job and node for the job's name, account and array, and an agent that has it about jobs of which the node shows nothing; default: nobody is asked")
	f.StringVar(&o.gate, "hook-gate", dcgm.GateWarn, "what the Prolog of a job across nodes does where IMEX is not ready in time: warn and go on, fail, or hold the job in the queue; off waits for nothing")
	f.DurationVar(&o.gateWait, "hook-gate-wait", dcgm.DefaultGateWait, "the longest that the Prolog of a job across nodes waits for IMEX")
	f.StringVar(&o.summaryDir, "hook-summary-dir", "", "`directory`, which nodes may share, that gets a summary of each job that has ended, beside the run directory")
}

// gateOff is the policy of a gate that there is not.
const gateOff = "off"

// hookConfig returns what the hook is told, or what is wrong with the flags.
func (o *jobsOptions) hookConfig() (dcgm.HookConfig, error) {
	c := dcgm.HookConfig{Unlink: o.hookUnlink, SummaryDir: o.summaryDir}
	switch {
	case o.sampleEvery < 100*time.Millisecond:
		return c, fmt.Errorf("--sample-interval %s: want 100ms or more", o.sampleEvery)
	case o.sweepEvery <= 0 || o.sweepEvery > 20*time.Second:
		return c, fmt.Errorf("--sweep-interval %s: want more than 0 and at most 20s, for GPUs are to be released within a minute", o.sweepEvery)
	case o.hookWait <= 0 || o.hookWait > time.Minute:
		return c, fmt.Errorf("--hook-wait %s: want more than 0 and at most 1m", o.hookWait)
	case strings.Contains(o.spools, "%"):
		return c, fmt.Errorf("--slurmd-spool %q: want the directory as it is on this node, with %%n and %%h written out", o.spools)
	case o.summaryDir != "" && !filepath.IsAbs(o.summaryDir):
		return c, fmt.Errorf("--hook-summary-dir %q: want an absolute path", o.summaryDir)
	case o.jobInfo != "" && !filepath.IsAbs(o.jobInfo):
		return c, fmt.Errorf("--hook-job-info %q: want the absolute path of scontrol, for slurmd gives a hook no PATH", o.jobInfo)
	case !slices.Contains([]string{gateOff, dcgm.GateWarn, dcgm.GateFail, dcgm.GateHold}, o.gate):
		return c, fmt.Errorf("--hook-gate %q: want off, warn, fail or hold", o.gate)
	case o.gate == dcgm.GateHold && o.jobInfo == "":
		return c, errors.New("--hook-gate hold: want --hook-job-info too, for scontrol puts the job back")
	case o.gateWait <= 0 || o.gateWait > 10*time.Minute:
		return c, fmt.Errorf("--hook-gate-wait %s: want more than 0 and at most 10m", o.gateWait)
	}
	if o.gate != gateOff {
		c.Gate = &dcgm.Gate{Policy: o.gate}
		if o.gateWait != dcgm.DefaultGateWait {
			c.Gate.Wait = dcgm.Duration(o.gateWait)
		}
	}
	if o.hookWait != dcgm.DefaultWait {
		c.Wait = dcgm.Duration(o.hookWait)
	}
	if o.jobInfo != "" {
		c.JobInfo = &dcgm.JobInfo{Command: o.jobInfo}
	}
	return c, nil
}

// askTimeout bounds a question of the agent's to Slurm, for which no job waits.
const askTimeout = 5 * time.Second

// registry returns the registry of the node's jobs.
func (o *jobsOptions) registry(hostRoot, runDir, mappingDir string, log *slog.Logger) *nodeagent.Jobs {
	c := nodeagent.JobsConfig{
		RunDir: runDir, MappingDir: mappingDir, Unlink: o.hookUnlink, SummaryDir: o.summaryDir,
		BootIDFile: filepath.Join(hostRoot, "proc/sys/kernel/random/boot_id"), Proc: filepath.Join(hostRoot, "proc"),
		Spools: nodeagent.SpoolDirs(o.spools), CgroupRoot: o.cgroupRoot,
		SampleEvery: o.sampleEvery, SweepEvery: o.sweepEvery,
	}
	if _, err := exec.LookPath(o.jobInfo); err == nil && os.Geteuid() == 0 { // not in its pod; others may not see all jobs
		c.Slurm = dcgm.JobInfo{Command: o.jobInfo, Timeout: dcgm.Duration(askTimeout)}
	}
	if len(c.Spools) == 0 {
		c.Spools = []string{filepath.Join(hostRoot, "var/spool/slurmd")}
	}
	if c.CgroupRoot == "" {
		c.CgroupRoot = filepath.Join(hostRoot, "sys/fs/cgroup")
	}
	return nodeagent.NewJobs(c, log)
}
