package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/service"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/nodereport"
	"github.com/quoin-hpc/quoin/topology/reportdir"
)

func newPublisherCommand() *cobra.Command {
	var s session.Flags
	cmd := &cobra.Command{
		Use:   "publisher",
		Short: "Publish the Slurm files of the cluster and keep them up to date (leader-elected)",
		Args:  cobra.NoArgs,
		RunE: s.Run(func(cmd *cobra.Command, conf *config.Config, _ []string) error {
			return runPublisher(cmd.Context(), conf, service.Logger(cmd.ErrOrStderr(), conf.Publisher.Log))
		}),
	}
	s.Add(cmd)
	s.AddKey(cmd, "store", "publisher.store", "work in this `directory` instead of Kubernetes")
	s.AddService(cmd, "publisher")
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
	if c.Store != "" {
		if err := reportdir.Exists(c.Store); err != nil {
			return err
		}
	}
	reg := service.Registry("publisher")
	serve := &service.Options{Listen: c.Listen, Registry: reg, Log: log}
	var store leadingStore = dir.New(c.Store, publication.FabricFiles(conf.Clusters())...)
	var shown page.Store = dir.New(c.Store) // which reads beside the publisher
	var options publisher.Options
	hosts := imex.NewHosts(conf.IMEX)
	if hosts != nil {
		options.Membership = hosts
	}
	var runs []func(context.Context) error
	if c.Store == "" {
		rc, client, err := session.Reach(c.Kubeconfig, "quoin-publisher", 100)
		if err != nil {
			return err
		}
		members, err := computedomain.NewCluster(rc, conf.IMEX, log)
		if err != nil {
			return err
		}
		reports, err := nodereport.NewClient(rc)
		if err != nil {
			return err
		}
		sets, err := dynamic.NewForConfig(rc)
		if err != nil {
			return fmt.Errorf("reach the API server for NodeSets: %w", err)
		}
		serve.Cluster = rc
		objects := kube.New(client, sets, reports, c.Namespace, conf.Clusters(), log)
		store, shown, hosts, runs = objects, objects, nil, append(runs, members.Run)
		options = publisher.Options{MaxBytes: kube.MaxBytes, Seed: true, Recorder: kube.NewEvents(client, log), Membership: members}
		if c.NodeConditions {
			options.Conditions = objects
		}
	}
	options.Slurm = slurmOfAll(conf.Clusters(), log)
	service.LogStart(log, "publisher", c.Store, "publications", len(conf.Publications))
	pub := publisher.New(store, conf.Clusters(), options, publisher.NewMetrics(reg), log)
	serve.Map, serve.MapAddress = page.New(page.NewSource(shown, conf.Clusters(), page.NewAsked(pub.Occupancy()), hosts), log).Handler(), c.MapListen
	serve.Ready, serve.Loops = store.Ready, []service.Loop{{Name: "the publisher", Busy: pub.Busy}}
	return service.Together(ctx, append(runs, store.Run, pub.Ask,
		func(ctx context.Context) error { return service.Serve(ctx, serve) },
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
