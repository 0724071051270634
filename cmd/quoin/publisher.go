package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
)

// publisherOptions are the flags of quoin publisher.
type publisherOptions struct {
	config, store, kubeconfig, namespace, pod, listen string
	leaderElect, nodeConditions                       bool
	log                                               logOptions
}

func newPublisherCommand() *cobra.Command { return new(publisherOptions).command() }

func (o *publisherOptions) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publisher",
		Short: "Keep the Slurm files of the cluster as its nodes are; one of several leads",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runPublisher(cmd.Context(), cmd, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "configuration `file` (see quoin config)")
	f.StringVar(&o.store, "store", "", "work in this `directory` instead of Kubernetes")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server; default: as a pod")
	f.StringVar(&o.namespace, "namespace", envOr("NAMESPACE", "quoin-system"), "namespace of reports and of the leader's lease")
	f.StringVar(&o.pod, "pod", envOr("POD_NAME", ""), "`name` of this publisher's Pod, by which publishers elect their leader; default $POD_NAME")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "publish only while elected; false publishes at once, for a publisher that is alone and not in a Pod")
	f.BoolVar(&o.nodeConditions, "node-conditions", true, "keep the conditions QuoinFabricDegraded, QuoinImexNotReady and QuoinTopologyDrift on Nodes; false leaves them alone")
	f.StringVar(&o.listen, "listen", ":9836", "address of /metrics, /healthz and /readyz; empty for none")
	o.log.addFlags(cmd)
	return cmd
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// leadingStore is a store that also elects who publishes.
type leadingStore interface {
	publisher.Store
	Run(ctx context.Context) error
	Ready(ctx context.Context) error
	Lead(ctx context.Context, lead func(context.Context) error) error
}

func runPublisher(ctx context.Context, cmd *cobra.Command, o *publisherOptions) error {
	conf, err := loadConfig(o.config, publisherSection, cmd.Flags())
	if err != nil {
		return err
	}
	log, err := o.log.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	reg := newRegistry()
	metrics := publisher.NewMetrics(reg)
	var store leadingStore
	var pub *publisher.Publisher
	runs := []func(context.Context) error{}
	if o.store != "" {
		if o.kubeconfig != "" {
			return errors.New("--store and --kubeconfig: want one of them")
		}
		store = publisher.NewDirStore(o.store)
		pub = publisher.New(store, conf.Publications, nil, metrics, log)
	} else {
		kube, err := o.kube(conf, log)
		if err != nil {
			return err
		}
		store = kube.store
		pub = publisher.New(store, conf.Publications, publisher.NewEvents(kube.client, log), metrics, log)
		pub.KeepMembership(kube.members)
		if o.nodeConditions {
			pub.KeepConditions(kube.store)
		}
		runs = append(runs, kube.members.Run)
	}
	return together(ctx, append(runs, store.Run,
		func(ctx context.Context) error { return serve(ctx, o.listen, metricsOf(reg), store.Ready) },
		func(ctx context.Context) error {
			if _, err := store.Snapshot(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			return store.Lead(ctx, pub.Run)
		})...)
}

// kubeParts are what a publisher has of Kubernetes.
type kubeParts struct {
	client  kubernetes.Interface
	store   *publisher.KubeStore
	members *computedomain.Cluster
}

func (o *publisherOptions) kube(conf *config, log *slog.Logger) (*kubeParts, error) {
	rc, err := kubeConfig(o.kubeconfig)
	if err != nil {
		return nil, err
	}
	pod, err := o.electedPod()
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
	return &kubeParts{client, publisher.NewKubeStore(client, o.namespace, pod, conf.Publications, log), members}, nil
}

// electedPod is the Pod that takes part in the election, empty without one.
func (o *publisherOptions) electedPod() (string, error) {
	switch {
	case !o.leaderElect:
		return "", nil
	case o.pod == "":
		return "", errors.New("no --pod and no $POD_NAME: publishers elect a leader by their Pods; outside a Pod give --leader-elect=false and run one")
	}
	return o.pod, nil
}
