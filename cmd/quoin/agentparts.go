package main

import (
	"log/slog"
	"path/filepath"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/nodeagent/jobs"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology/adapters"
)

// hookConfig returns the hook's configuration.
func hookConfig(o *config.Agent) rundir.HookConfig {
	c := rundir.HookConfig{MappingDir: o.MappingDir, SummaryDir: o.HookSummaryDir, Scontrol: o.HookScontrol}
	if o.HookGate != config.GateOff {
		c.Gate = &rundir.Gate{Policy: o.HookGate, Wait: rundir.Duration(o.HookGateWait)}
	}
	return c
}

// jobsConfig returns the configuration of the registry of the node's jobs in a boot.
func jobsConfig(a *config.Agent, boot string) jobs.Config {
	labels, kept := dcgm.Open(a.MappingDir)
	return jobs.Config{
		RunDir: rundir.Dir(a.RunDir), BootID: boot, Labels: labels, Kept: kept, SummaryDir: a.HookSummaryDir,
		Proc: filepath.Join(a.HostRoot, "proc"),
	}
}

// adapterReader returns the reader of this machine's network adapters, nil for a simulated machine,
// whose report has them.
func adapterReader(m *config.Machine) nodeagent.AdapterReader {
	if m.Simulate != "" {
		return nil
	}
	return adapters.New(m.Sys(), m.LLDPFile)
}

// idSources returns the sources of DCGM's ids of the GPUs. The first one is asked
// first.
func idSources(c *config.DCGM, log *slog.Logger) ([]nodeagent.IDSource, error) {
	var out []nodeagent.IDSource
	if c.DCGMHostEngine != "" {
		command, err := ownCommand("probe-dcgm", "--host-engine", c.DCGMHostEngine)
		if err != nil {
			return nil, err
		}
		out = append(out, nodeagent.NewHostEngine(c.DCGMHostEngine, command, log))
	}
	if c.DCGMExporter != "" {
		out = append(out, nodeagent.NewExporter(c.DCGMExporter))
	}
	return out, nil
}
