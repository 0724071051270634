package main

import (
	"github.com/spf13/cobra"
)

// newRootCommand returns the command tree. Each command has a file of its own.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "quoin",
		Short:         "Keep Slurm, Kubernetes and the NVIDIA stack agreed about NVLink domains",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newDemoCommand(), newAgentCommand(), newProbeCommand(), newDiscoverCommand(), newRenderCommand(), newCheckCommand(), newPublisherCommand(), newConfigCommand())
	return root
}
