package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/terminal"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology/picture"
)

func newMapCommand() *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "map (--nodes FILE|- | REPORT.json|DIR...)",
		Short: "Draw a cluster in the terminal: blocks, switches, and how its nodes are",
		Long: `map draws what render would write: a row for each block with a cell for each node,
and the switch tree. It lists the nodes that have no place with the reason, and what
is wrong. It always draws blocks and switches, even if the publication lets render
write only one of them.`,
		Example: `  kubectl get nodes -o json | quoin map --nodes -
  quoin map /shared/quoin/reports`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return drawMap(cmd.InOrStdin(), cmd.OutOrStdout(), &o, args)
		},
	}
	o.addFlags(cmd)
	return cmd
}

func drawMap(stdin io.Reader, stdout io.Writer, o *renderOptions, reports []string) error {
	in, err := o.read(stdin, reports)
	if err != nil {
		return err
	}
	made, err := publisher.Make(in.pub, in.facts, in.previous)
	if err != nil {
		return err
	}
	s := terminal.New(stdout)
	return picture.Terminal(stdout, made.Plan, in.facts.Facts, picture.Options{Color: s.Color, Width: min(s.Width, 160)})
}
