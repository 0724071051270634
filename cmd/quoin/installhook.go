package main

import (
	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/nodeagent"
)

// newInstallHookCommand returns what the init container of the agent's pods runs.
func newInstallHookCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "install-hook DIR",
		Short:  "Copy quoin-hook, which lies beside quoin, into a directory that slurmd sees",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE:   func(_ *cobra.Command, args []string) error { return nodeagent.InstallHook(args[0]) },
	}
}
