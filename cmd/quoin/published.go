package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// listed is a cluster whose objects were listed, and its stored plans.
type listed struct {
	kube.Plans
	snap *inputs.Snapshot
}

// Snapshot implements page.Store.
func (l *listed) Snapshot(context.Context) (*inputs.Snapshot, error) { return l.snap, nil }

// published returns what the publisher has stored and what nodes and Slurm say now, as the
// page shows it.
func (o *renderOptions) published(ctx context.Context) (*picture.Site, error) {
	conf, pub, err := o.cluster(o.publication)
	if err != nil {
		return nil, err
	}
	var store page.Store = dir.New(conf.Publisher.Store)
	hosts := imex.NewHosts(conf.IMEX)
	switch {
	case conf.Publisher.Store != "":
		if _, err := os.Stat(conf.Publisher.Store + "/"); err != nil {
			return nil, fmt.Errorf("read plan: %w; want the directory that quoin publisher --store works in", err)
		}
	case o.kubeconfig == "":
		return nil, errors.New("--published: want --kubeconfig FILE beside it, or --store DIR in its place")
	default:
		_, client, err := kubeClient(o.kubeconfig, "quoin-map", 50)
		if err != nil {
			return nil, err
		}
		snap, err := o.readNodes(ctx, nil, pub)
		if err != nil {
			return nil, err
		}
		pub.Rules.FromLists()
		store, hosts = &listed{kube.Plans{Client: client, Namespace: conf.Publisher.Namespace}, snap}, nil
	}
	return page.NewSource(store, []*publication.Cluster{pub}, o.asked(pub), hosts).Site(ctx, pub.Name)
}

// asked asks the Slurm of a publication once, if it can be asked. On a large site Slurm takes
// long to list the GPUs of all jobs. Text and SVG do not show them.
func (o *renderOptions) asked(pub *publication.Cluster) *page.Asked {
	log := slog.New(slog.DiscardHandler)
	keeper := occupancy.New(slurmOfAll([]*publication.Cluster{pub}, log), log)
	keeper.Details = o.output == outputJSON || o.output == "html"
	asked := page.NewAsked(keeper)
	asked.Wait = true
	return asked
}
