package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/listing"
	"github.com/quoin-hpc/quoin/cmd/quoin/reports"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
)

// newIMEXCommand returns the commands about the IMEX domain.
func newIMEXCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "imex COMMAND", Short: "Name the nodes without IMEX, or help to run the machines' own nvidia-imex.service"}
	show.CommandGroup(cmd)
	cmd.AddCommand(newIMEXCheckCommand(), newPlanSubcommand("nodes-config", "Print the nodes_config.cfg of a clique: the addresses of its nodes in the published plan, the same on every node", cobra.NoArgs,
		func(r *planRun, o *planOptions, _ []string) error {
			return printNodesConfig(r.Context(), r.out, r.doc, o.clique, r.store.Addresses)
		}))
	return cmd
}

func newIMEXCheckCommand() *cobra.Command {
	var o renderOptions
	var objects string
	cmd := &cobra.Command{
		Use:   "check (--objects FILE | --kubeconfig FILE) [REPORT...]",
		Short: "Name each node that is no member of the IMEX domain, and say what to do",
		Long: `check reads the cluster's nodes, ComputeDomains, claims and pods. It names each node that
is no member of the IMEX domain, and says what to do there. Reports add what NVML says,
and what the nodes say of their daemons and channels.

Exit status: 1 if a node that needs it is no member, 3 if something could not be judged.`,
		Example: `  quoin imex check --kubeconfig ~/.kube/config
  ` + computedomain.ListCommand + ` | quoin imex check --objects -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := o.members(cmd.Context(), cmd.InOrStdin(), objects, args)
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&objects, "objects", "", "`file` with the output of "+computedomain.ListCommand+", - for standard input")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server: read the cluster in place of a file")
	cmd.MarkFlagsMutuallyExclusive("objects", "kubeconfig")
	o.settings.addFlags(cmd)
	outputFlag(cmd, &o.output, "text", outputJSON)
	return cmd
}

// members names the nodes that are no members of the IMEX domain.
func (o *renderOptions) members(ctx context.Context, stdin io.Reader, list string, paths []string) (*show.Result, error) {
	if list == "" && o.kubeconfig == "" {
		return nil, errors.New("no input: want --objects FILE (- for standard input), or --kubeconfig FILE; see quoin imex check --help")
	}
	c, err := o.load()
	if err != nil {
		return nil, err
	}
	objects := computedomain.NewObjects(c.IMEX)
	pods := false
	snap, name, err := o.readObjects(ctx, stdin, list, func(kind string, object []byte) error {
		pods = pods || kind == "Pod"
		return objects.Add(kind, object)
	})
	if err != nil {
		return nil, err
	}
	if !pods { // no cluster is without
		return nil, fmt.Errorf("%s: no Pod in it: want the output of %s", name, computedomain.ListCommand)
	}
	if err := reports.Add(snap, paths); err != nil {
		return nil, err
	}
	seen := objects.Seen()
	seen.Nodes = nodestatus.Members(snap, seen.Workers)
	r := show.MembersResult(seen)
	r.Kind = "IMEXCheckResult"
	r.Found(snap.Problems...)
	return r, nil
}

// readObjects reads the output of computedomain.ListCommand from a file, - for standard
// input, or reads the same from the cluster.
func (o *renderOptions) readObjects(ctx context.Context, stdin io.Reader, list string, each func(kind string, object []byte) error) (*inputs.Snapshot, string, error) {
	file, name, err := o.open(ctx, stdin, list, computedomain.ListCommand, listing.Domain)
	if err != nil {
		return nil, name, fmt.Errorf("read the cluster's objects: %w", err)
	}
	defer func() { _ = file.Close() }()
	in := bufio.NewReader(file)
	if _, err := in.Peek(1); errors.Is(err, io.EOF) {
		return nil, name, fmt.Errorf("%s: empty: want the output of %s: kubectl prints nothing if a kind is missing; are the CRDs of NVIDIA's DRA driver there? older releases of the driver have no computedomaincliques",
			name, computedomain.ListCommand)
	}
	reader := inputs.ListReader{Command: computedomain.ListCommand, Keep: inputs.KeysOf(), Slices: kube.ReadSlice, Each: each}
	snap, err := reader.Read(name, in)
	return snap, name, listing.Cause(err)
}
