package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
)

func newPublisherCommand() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "publisher",
		Short: "Publish the Slurm files of the cluster, and keep them true; of several publishers one leads",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := s.load()
			if err != nil {
				return err
			}
			return runPublisher(cmd.Context(), conf, newLogger(cmd.ErrOrStderr(), conf.Publisher.Log))
		},
	}
	s.addFlags(cmd)
	s.keyFlag(cmd, "store", "publisher.store", "work in this `directory` instead of Kubernetes")
	s.keyFlag(cmd, "kubeconfig", "publisher.kubeconfig", "`file` that says how to reach the API server; default: as a Pod")
	s.keyFlag(cmd, "listen", "publisher.listen", "`address` of /metrics, /healthz and /readyz; empty for none")
	s.logFlags(cmd, "publisher")
	return cmd
}

// leadingStore is a store that also elects who publishes.
type leadingStore interface {
	publisher.Store
	Run(ctx context.Context) error
	Ready(ctx context.Context) error
	Lead(ctx context.Context, lead func(context.Context) error) error
}

func runPublisher(ctx context.Context, conf *config.Config, log *slog.Logger) error {
	c := &conf.Publisher
	reg := newRegistry()
	metrics := publisher.NewMetrics(reg)
	var store leadingStore
	var pub *publisher.Publisher
	runs := []func(context.Context) error{}
	if c.Store != "" {
		store = dir.New(c.Store)
		pub = publisher.New(store, conf.Clusters(), publisher.Options{}, metrics, log)
	} else {
		parts, err := newKubeParts(conf, log)
		if err != nil {
			return err
		}
		store = parts.store
		options := publisher.Options{Recorder: kube.NewEvents(parts.client, log), Membership: parts.members}
		if c.NodeConditions {
			options.Conditions = parts.store
		}
		pub = publisher.New(store, conf.Clusters(), options, metrics, log)
		runs = append(runs, parts.members.Run)
	}
	return together(ctx, append(runs, store.Run,
		func(ctx context.Context) error { return serve(ctx, c.Listen, metricsOf(reg), store.Ready) },
		func(ctx context.Context) error {
			if _, err := store.Snapshot(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			if !c.LeaderElect {
				return pub.Run(ctx)
			}
			return store.Lead(ctx, pub.Run)
		})...)
}

// kubeParts are the parts of a publisher that talk to Kubernetes.
type kubeParts struct {
	client  kubernetes.Interface
	store   *kube.Store
	members *computedomain.Cluster
}

func newKubeParts(conf *config.Config, log *slog.Logger) (*kubeParts, error) {
	rc, err := kubeConfig(conf.Publisher.Kubeconfig)
	if err != nil {
		return nil, err
	}
	rc.QPS, rc.Burst, rc.UserAgent = 100, 200, "quoin-publisher"
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	members, err := computedomain.NewCluster(rc, conf.IMEX, log)
	if err != nil {
		return nil, err
	}
	return &kubeParts{client, kube.New(client, conf.Publisher.Namespace, conf.Clusters(), log), members}, nil
}
