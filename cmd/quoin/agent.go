package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/service"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/nodeagent/jobs"
	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/adapters"
	"github.com/quoin-hpc/quoin/topology/nodereport"
	"github.com/quoin-hpc/quoin/topology/reportdir"
)

func newAgentCommand() *cobra.Command {
	var s session.Flags
	var node string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Report this node's GPUs and NVLink fabric, and keep the files that the job hook reads",
		Args:  cobra.NoArgs,
		RunE: s.Run(func(cmd *cobra.Command, conf *config.Config, _ []string) error {
			name, err := nodeName(node, &conf.Agent.Machine)
			if err != nil {
				return err
			}
			return runAgent(cmd.Context(), conf, name, supervised, service.Logger(cmd.ErrOrStderr(), conf.Agent.Log))
		}),
	}
	s.Add(cmd)
	machineFlags(cmd, &s, &node)
	s.AddKey(cmd, "store", "agent.store", "write the report into this `directory` instead of Kubernetes")
	s.AddService(cmd, "agent")
	return cmd
}

// supervised has a child process read the machine.
func supervised(s probe.Supervisor) nodeagent.Probe { return s }

// runAgent runs an agent until ctx ends. read returns what reads the machine. It is given the
// supervisor of a child process that would.
func runAgent(ctx context.Context, conf *config.Config, node string, read func(probe.Supervisor) nodeagent.Probe, log *slog.Logger) error {
	c := &conf.Agent
	if err := checkSimulated(&c.Machine, node); err != nil {
		return err
	}
	ids, err := idSources(&c.DCGM, log)
	if err != nil {
		return err
	}
	reg := service.Registry("agent")
	store, members, cluster, err := openStore(conf, node, log)
	if err != nil {
		return err
	}
	command, err := probeCommand(conf, node)
	if err != nil {
		return err
	}
	service.LogStart(log, "agent", c.Store, "node", node)
	runDir := rundir.Dir(c.RunDir)
	boot, err := rundir.BootID(c.HostRoot)
	if err != nil {
		log.Warn("boot id cannot be read: files of an earlier boot count as files of this boot", "err", err)
	}
	reports, samples, wanted := make(chan *topology.Node, 1), make(chan topology.Sample, 4), make(chan []string)
	registry := jobsConfig(c, boot)
	registry.SampleEvery, registry.SweepEvery = conf.Times.Sample, conf.Times.Sweep
	if registry.Group, err = c.Group(); err != nil {
		return err
	}
	registry.Reports, registry.Samples, registry.Wanted = reports, samples, wanted
	jobs := jobs.New(registry, log)
	reg.MustRegister(jobs.Collector())
	child := probe.Supervisor{Node: node, Child: probe.Child{Command: command, Silence: 3*conf.Times.Read + 15*time.Second, Log: log},
		Samples: samples, Wanted: wanted, SampleEvery: conf.Times.Sample}.WithDefaults()
	config := nodeagent.Config{Node: node, IDs: ids, IDsEvery: conf.Times.IDs, Subscribers: []chan *topology.Node{reports},
		Probe: read(child), Stale: child.Start + child.Silence + 30*time.Second, Adapters: adapterReader(&c.Machine), AdaptersEvery: conf.Times.Read}
	fabrics := publication.AnyFabrics(conf.Clusters())
	runs := []func(context.Context) error{jobs.Run}
	hook := hookConfig(c)
	if members != nil {
		reports := make(chan *topology.Node, 1)
		config.Subscribers = append(config.Subscribers, reports)
		runs = append(runs, members.Run, nodeagent.NewGate(node, boot, runDir, members, fabrics.Alone, reports, reg, log).Run)
	} else {
		hook.Gate = nil // nobody opens the gate
	}
	files := &nodeagent.HookFiles{RunDir: runDir, BootID: boot, Hook: hook, Fabric: fabrics.Alone}
	agent := nodeagent.New(config, store, files, nodeagent.NewMetrics(reg), log)
	return service.Together(ctx, append(runs, agent.Run, func(ctx context.Context) error {
		return service.Serve(ctx, &service.Options{Listen: c.Listen, Registry: reg, Cluster: cluster, Log: log,
			Ready: func(context.Context) error { return agent.Ready() }, Loops: []service.Loop{{Name: "jobs", Busy: jobs.Busy}}})
	})...)
}

// member observes a node in the IMEX domain.
type member interface {
	nodeagent.NodeMembership
	Run(ctx context.Context) error
}

// openStore returns the store of the report, the observer of this node, which is nil if nodes
// join no domain, and how to reach the API server, nil without one.
func openStore(conf *config.Config, node string, log *slog.Logger) (nodeagent.Store, member, *rest.Config, error) {
	if conf.Agent.Store != "" {
		if hosts := imex.NewHosts(conf.IMEX); hosts != nil {
			return reportdir.New(conf.Agent.Store, node), hosts, nil, nil
		}
		return reportdir.New(conf.Agent.Store, node), nil, nil, nil
	}
	rc, client, err := session.Reach(conf.Agent.Kubeconfig, "quoin-agent", 0)
	if err != nil {
		return nil, nil, nil, err
	}
	reports, err := nodereport.NewClient(rc)
	if err != nil {
		return nil, nil, nil, err
	}
	store := nodeagent.NewKubeStore(client, reports, node)
	if conf.IMEX.Join == imex.JoinNone {
		return store, nil, rc, nil
	}
	members, err := computedomain.NewNode(rc, conf.IMEX, node, log)
	return store, members, rc, err
}

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
