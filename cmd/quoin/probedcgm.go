package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/hostengine"
)

// newProbeDCGMCommand returns the agent's other child.
func newProbeDCGMCommand() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:    "probe-dcgm",
		Short:  "Print DCGM's ids of the GPUs as one line of JSON; quoin agent runs it as its child",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			gpus, err := hostengine.Read(address)
			if err != nil {
				return err
			}
			line, err := dcgm.EncodeIdentities(gpus)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", line); err != nil {
				return fmt.Errorf("print DCGM's ids: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&address, "host-engine", "localhost:5555", "`address` of DCGM's host engine: host, host:port, or the path of its socket")
	return cmd
}
