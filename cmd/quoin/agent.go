package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology"
)

// agentOptions are the flags of quoin agent.
type agentOptions struct {
	machine                                                                   machineOptions
	config, store, kubeconfig, namespace, runDir, mappingDir, listen, hookDir string
	interval                                                                  time.Duration
	jobs                                                                      jobsOptions
	dcgm                                                                      dcgmOptions
	gres                                                                      publisher.Gres
	log                                                                       logOptions
}

func newAgentCommand() *cobra.Command { return new(agentOptions).command() }

func (o *agentOptions) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Report this node's GPUs and NVLink fabric, and keep the files that the job hook reads",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runAgent(cmd.Context(), cmd, o)
		},
	}
	o.machine.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "configuration `file` (see quoin config)")
	f.StringVar(&o.store, "store", "", "write the report into this `directory` instead of Kubernetes")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server; default: as a pod")
	f.StringVar(&o.namespace, "namespace", envOr("NAMESPACE", "quoin-system"), "namespace of the report")
	f.StringVar(&o.runDir, "run-dir", "/run/quoin", "`directory` of the files that the hook reads")
	f.StringVar(&o.mappingDir, "mapping-dir", "/var/lib/dcgm-exporter/job-mapping", "DCGM Exporter's job mapping `directory`, for the hook")
	f.StringVar(&o.hookDir, "install-hook", "", "install quoin-hook, which lies beside this program, into this `directory`")
	f.StringVar(&o.listen, "listen", ":9835", "address of /metrics, /healthz and /readyz; empty for none")
	addIntervalFlag(f, &o.interval)
	o.jobs.addFlags(f)
	addGresTypeFlags(f, &o.gres)
	f.StringVar(&o.gres.AutoDetect, "gres-autodetect", "", "how this node's slurmd detects its GPUs, by which it orders them: nvidia or nvml; default: gres.conf lists them")
	o.dcgm.addFlags(f)
	o.log.addFlags(cmd)
	return cmd
}

func runAgent(ctx context.Context, cmd *cobra.Command, o *agentOptions) error {
	conf, err := loadConfig(o.config, agentSection, cmd.Flags())
	if err != nil {
		return err
	}
	log, err := o.log.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := o.machine.complete(); err != nil {
		return err
	}
	o.machine.cgroupRoot = o.jobs.cgroupRoot
	ids, err := o.dcgm.sources(log)
	if err != nil {
		return err
	}
	hook, err := o.jobs.hookConfig()
	if err != nil {
		return err
	}
	store, members, err := o.open(conf, log)
	if err != nil {
		return err
	}
	if o.hookDir != "" {
		if err := nodeagent.InstallHook(o.hookDir); err != nil {
			return err
		}
	}
	probe, err := nodeagent.ProbeCommand(append(o.machine.args(), "--interval", o.interval.String())...)
	if err != nil {
		return err
	}
	files := nodeagent.NewHookFiles(o.runDir, o.mappingDir)
	if files.Devices, err = gresDevicesOf(&o.gres); err != nil {
		return err
	}
	reg := newRegistry()
	jobs := o.jobs.registry(o.machine.root, o.runDir, o.mappingDir, log)
	config := nodeagent.Config{Node: o.machine.node, Probe: probe, Silence: 3*o.interval + 15*time.Second, IDs: ids, IDsEvery: o.dcgm.every,
		Observe: jobs.Observe, Sampled: jobs, SampleEvery: o.jobs.sampleEvery}
	runs := []func(context.Context) error{jobs.Run}
	if members != nil {
		gate := nodeagent.NewGate(o.machine.node, o.runDir, members, reg, log)
		config.Observe = func(n *topology.Node) {
			jobs.Observe(n)
			gate.Observe(n)
		}
		runs = append(runs, members.Run, gate.Run)
	} else {
		hook.Gate = nil // nobody would open it
	}
	files.Hook = hook
	agent := nodeagent.New(config, store, files, nodeagent.NewMetrics(reg), log)
	return together(ctx, append(runs, agent.Run, func(ctx context.Context) error {
		return serve(ctx, o.listen, jobs.Handler(reg), func(context.Context) error { return agent.Ready() })
	})...)
}

// open returns where reports go, and what sees the node's membership in the IMEX
// domain, nil where it joins none.
func (o *agentOptions) open(conf *config, log *slog.Logger) (nodeagent.Store, *computedomain.Node, error) {
	if o.store != "" {
		if o.kubeconfig != "" {
			return nil, nil, errors.New("--store and --kubeconfig: want one of them")
		}
		return nodeagent.NewDirStore(o.store, o.machine.node), nil, nil
	}
	rc, err := kubeConfig(o.kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	rc.UserAgent = "quoin-agent"
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the API server: %w", err)
	}
	store := nodeagent.NewKubeStore(client, o.namespace, o.machine.node)
	if conf.IMEX.Join == imex.JoinNone {
		return store, nil, nil
	}
	members, err := computedomain.NewNode(rc, conf.IMEX, o.machine.node, log)
	return store, members, err
}
