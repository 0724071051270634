package main

import (
	"cmp"
	"path/filepath"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/nodeagent/jobs"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// hookConfig returns the hook's configuration. It leaves out values that are the hook's
// own defaults.
func hookConfig(o *config.Agent) rundir.HookConfig {
	c := rundir.HookConfig{MappingDir: o.MappingDir, SummaryDir: o.HookSummaryDir}
	if o.HookGate != config.GateOff {
		c.Gate = &rundir.Gate{Policy: o.HookGate}
		if o.HookGateWait != rundir.DefaultGateWait {
			c.Gate.Wait = rundir.Duration(o.HookGateWait)
		}
	}
	if o.HookWait != rundir.DefaultWait {
		c.Wait = rundir.Duration(o.HookWait)
	}
	if o.HookJobInfo != "" {
		c.JobInfo = &rundir.JobInfo{Command: o.HookJobInfo}
	}
	return c
}

// jobsConfig returns the configuration of the registry of the node's jobs in a boot.
func jobsConfig(a *config.Agent, boot string) jobs.Config {
	c := jobs.Config{
		RunDir: rundir.Dir(a.RunDir), BootID: boot, MappingDir: a.MappingDir, SummaryDir: a.HookSummaryDir,
		Proc:   filepath.Join(a.HostRoot, "proc"),
		Spools: a.SlurmdSpool, CgroupRoot: cmp.Or(a.CgroupRoot, filepath.Join(a.HostRoot, "sys/fs/cgroup")),
		SampleEvery: a.SampleInterval, SweepEvery: a.SweepInterval,
	}
	if len(c.Spools) == 0 {
		c.Spools = []string{filepath.Join(a.HostRoot, "var/spool/slurmd")}
	}
	return c
}
