package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/quoin-hpc/quoin/cmd/quoin/comparison"
	"github.com/quoin-hpc/quoin/cmd/quoin/listing"
	"github.com/quoin-hpc/quoin/cmd/quoin/reports"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
)

// checkIMEX names the nodes that are no members of the IMEX domain.
func checkIMEX(ctx context.Context, stdin io.Reader, o *checkOptions, paths []string) (*show.Result, error) {
	c, err := o.render.load()
	if err != nil {
		return nil, err
	}
	objects := computedomain.NewObjects(c.IMEX)
	pods := false
	snap, err := readObjects(ctx, stdin, o, func(kind string, object []byte) error {
		pods = pods || kind == "Pod"
		return objects.Add(kind, object)
	})
	if err != nil {
		return nil, err
	}
	if !pods { // no cluster is without
		return nil, fmt.Errorf("%s: no Pod in it: want the output of %s", o.imex, computedomain.ListCommand)
	}
	if err := reports.Add(snap, paths); err != nil {
		return nil, err
	}
	seen := objects.Seen()
	seen.Nodes = nodestatus.Members(snap, seen.Workers)
	r := comparison.OfMembers(seen)
	r.Found(snap.Problems...)
	return r, nil
}

// readObjects reads the output of computedomain.ListCommand from a file, - for standard
// input, or reads the same from the cluster.
func readObjects(ctx context.Context, stdin io.Reader, o *checkOptions, each func(kind string, object []byte) error) (*inputs.Snapshot, error) {
	if o.render.kubeconfig != "" && o.imex != "-" {
		return nil, fmt.Errorf("--imex %s beside --kubeconfig: want --imex - to read the cluster", o.imex)
	}
	file, name, err := o.render.open(ctx, stdin, o.imex, computedomain.ListCommand, listing.Domain)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's objects: %w", err)
	}
	defer func() { _ = file.Close() }()
	in := bufio.NewReader(file)
	if _, err := in.Peek(1); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: empty: want the output of %s: kubectl prints nothing if a kind is missing; are the CRDs of NVIDIA's DRA driver there? older releases of the driver have no computedomaincliques",
			name, computedomain.ListCommand)
	}
	reader := inputs.ListReader{Command: computedomain.ListCommand, Each: each}
	snap, err := reader.Read(name, in)
	return snap, listing.Cause(err)
}
