package main

import (
	"github.com/spf13/cobra"
)

// newHoldCommand returns the program of the DaemonSet quoin-imex. The claim of its pod
// keeps the node's IMEX daemon running, so the program does nothing.
func newHoldCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "hold",
		Short:  "Do nothing until told to stop: for the pods that hold the nodes' IMEX channels (DaemonSet quoin-imex)",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}
