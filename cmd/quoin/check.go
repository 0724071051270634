package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

func newCheckCommand() *cobra.Command {
	var o filesOptions
	var shown string
	cmd := &cobra.Command{
		Use:   "check [--topology FILE] (--files PATH | --nodes FILE | REPORT...)",
		Short: "Say where the topology that Slurm has loaded differs from the files",
		Long: `check asks the running Slurm as the publication says (slurm.url or slurm.scontrol),
and names each node that Slurm does not know, or has in another place than the files.

With --topology it reads the output of scontrol show topology instead. It lists the
nodes, blocks, switches and block sizes that differ. Slurm shows the block sizes up to
the first one that spans all blocks.

--files names the files. With --nodes, --kubeconfig or reports, check first makes the
files as render does. Nodes with the same reason and message share a line.

Exit status: 1 if it differs, 3 if something could not be compared.`,
		Example: `  quoin check --files /etc/slurm --set publicationDefaults.slurm.scontrol=scontrol
  scontrol show topology | quoin check --topology - --files topology.conf
  kubectl get nodes -o json >nodes.json; scontrol show topology | quoin check --topology - --nodes nodes.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if shown == "-" && o.nodes == "-" {
				return errors.New("--topology - and --nodes -: standard input holds one of them; give a file for the other")
			}
			r := &show.Result{Kind: "CheckResult"}
			_, whole, err := o.read(cmd.Context(), cmd.InOrStdin(), r, args)
			if err != nil {
				return err
			}
			one, err := o.compare(cmd.Context(), cmd.InOrStdin(), shown, whole)
			if err != nil {
				return err
			}
			r.Add(one)
			return o.print(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().StringVar(&shown, "topology", "", "`file` with the output of scontrol show topology, - for standard input; default: ask the running Slurm")
	o.addFlags(cmd, "topology.conf or topology.yaml, or a `path` of a directory that holds one")
	return cmd
}

// compare compares the files with what Slurm has, as a file or the running Slurm says.
func (o *filesOptions) compare(ctx context.Context, stdin io.Reader, shown string, files []lint.File) (*show.Result, error) {
	i := slices.IndexFunc(files, isTopology)
	if i < 0 {
		return nil, fmt.Errorf("%s: no topology.yaml and no topology.conf in it", o.files)
	}
	if shown != "" {
		return checkShown(stdin, shown, files[i])
	}
	_, pub, err := o.cluster(o.publication)
	if err != nil {
		return nil, err
	}
	slurm := slurmOnce(pub)
	if slurm == nil {
		return nil, errors.New("the publication does not say how Slurm is asked: set publicationDefaults.slurm.url and publicationDefaults.slurm.tokenFile, or publicationDefaults.slurm.scontrol; or give --topology FILE (- for standard input)")
	}
	texts := map[string]string{}
	for _, f := range files { // which may have other names
		name := "topology.conf"
		switch {
		case !isTopology(f):
			name = gresFile
		case strings.HasSuffix(f.Name, ".yaml"):
			name = "topology.yaml"
		}
		texts[name] = string(f.Data)
	}
	wanted, err := loaded.ReadWanted(texts)
	if err != nil {
		return nil, err
	}
	a := slurm.Ask(ctx, wanted.Question(), 0)
	if a.Err != nil {
		return nil, fmt.Errorf("ask Slurm: %w; --topology takes the output of scontrol show topology instead", a.Err)
	}
	return show.LoadedResult(wanted, &a.State), nil
}

// checkShown says where Slurm has loaded another topology than wanted.
func checkShown(stdin io.Reader, name string, wanted lint.File) (*show.Result, error) {
	shown, err := readShown(stdin, name)
	if err != nil {
		return nil, err
	}
	differences, nodes, err := slurmctld.CompareShown(shown, wanted.Name, wanted.Data)
	if err != nil {
		return nil, err
	}
	return show.ShownResult(differences, nodes), nil
}

func readShown(stdin io.Reader, name string) (topology.Topology, error) {
	in, name, err := openInput(stdin, name, "scontrol show topology")
	if err != nil {
		return topology.Topology{}, fmt.Errorf("read topology: %w", err)
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(in)
	if err != nil {
		return topology.Topology{}, fmt.Errorf("read topology: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return topology.Topology{}, fmt.Errorf("%s: empty: want the output of scontrol show topology; does slurmctld answer, and is a topology plugin configured? where the default topology is flat, name another, as in scontrol show topology nvl", name)
	}
	return slurmctld.ParseShown(name, text)
}
