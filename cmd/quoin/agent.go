package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/service"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/nodeagent/jobs"
	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
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
