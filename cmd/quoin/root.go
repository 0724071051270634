package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newRootCommand returns the command tree. Each command has its own file.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "quoin",
		Short: "Keep Slurm, Kubernetes and the NVIDIA stack agreed about NVLink domains",
		Long: `quoin puts every GPU node of a Slurm cluster into the block of its NVLink domain,
keeps Slurm and Kubernetes agreed about it, and says which job holds which GPU.

quoin config shows all keys of the configuration. Commands take the file by --config,
and a single key by --set.

Exit status: 0 fine; 1 a difference, or something that is not there; 2 trouble.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddGroup(&cobra.Group{ID: "look", Title: "Commands that look at a cluster, a machine or a job:"}, &cobra.Group{ID: "run", Title: "Commands that run on the cluster:"})
	inGroup(root, "look", newDemoCommand(), newRenderCommand(), newMapCommand(), newCheckCommand(), newDiscoverCommand(), newJobCommand(), newConfigCommand())
	inGroup(root, "run", newAgentCommand(), newPublisherCommand())
	// quoin agent and the manifests run these, not people.
	root.AddCommand(newProbeCommand(), newProbeDCGMCommand(), newHoldCommand())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	return root
}

func inGroup(root *cobra.Command, id string, commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.GroupID = id
	}
	root.AddCommand(commands...)
}
