package main

import (
	"fmt"

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
	root.AddCommand(newDemoCommand(), newAgentCommand(), newProbeCommand(), newProbeDCGMCommand(), newDiscoverCommand(), newRenderCommand(), newMapCommand(), newCheckCommand(), newJobCommand(), newPublisherCommand(), newHoldCommand(), newConfigCommand())
	hint := func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	}
	root.SetFlagErrorFunc(hint)
	hintArgs(root, hint)
	return root
}

// hintArgs has all commands below parent add the hint to what is wrong with their
// arguments.
func hintArgs(parent *cobra.Command, hint func(*cobra.Command, error) error) {
	for _, cmd := range parent.Commands() {
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return hint(cmd, err)
				}
				return nil
			}
		}
		hintArgs(cmd, hint)
	}
}
