// Command quoin keeps Slurm, Kubernetes and the NVIDIA stack agreed about
// NVLink domains: agent, publisher, probe, and one-shot tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/cmd/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns the exit status, as show.ExitCodes says.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand() //nolint:contextcheck // cobra hands ctx on
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var code show.ExitCode
	switch {
	case err == nil:
		return int(show.Fine)
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(stderr, "quoin: %v\n", err)
	return int(show.Trouble)
}

// newRootCommand returns the command tree. Each command has its own file.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "quoin COMMAND",
		Short: "Keep Slurm, Kubernetes and the NVIDIA stack agreed about NVLink domains",
		Long: `quoin puts every GPU node of a Slurm cluster into the block of its NVLink domain,
keeps Slurm and Kubernetes agreed about it, and says which job holds which GPU.

quoin config shows all keys of the configuration. Commands take the file by --config,
and a single key by --set. If something is wrong, begin with quoin doctor, which looks at the
installation. Then quoin lint judges the files, and quoin check compares Slurm with the files.

` + show.ExitCodes,
		Version:       version.Get().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("quoin {{.Version}}\n")
	root.AddGroup(&cobra.Group{ID: "look", Title: "Commands that look at a cluster, a machine or a job:"}, &cobra.Group{ID: "run", Title: "Commands that run on the cluster:"})
	inGroup(root, "look", newDemoCommand(), newRenderCommand(), newMapCommand(), newFitCommand(), newCheckCommand(), newLintCommand(), newDoctorCommand(), newPlanCommand(), newIMEXCommand(), newDiscoverCommand(), newJobCommand(), newConfigCommand(), newVersionCommand())
	inGroup(root, "run", newAgentCommand(), newPublisherCommand())
	// quoin agent and the manifests run these, not people.
	root.AddCommand(newProbeCommand(), newProbeDCGMCommand(), newHoldCommand(), newInstallHookCommand(), newStatusCommand())
	root.AddCommand(newReasonsTopic())
	show.CommandGroup(root)
	show.ExplainUsage(root)
	if filepath.Base(os.Args[0]) == "kubectl-quoin" { // kubectl calls it so, for kubectl quoin
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl quoin"}
		show.CallPlugin(root)
	}
	return root
}

func inGroup(root *cobra.Command, id string, commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.GroupID = id
	}
	root.AddCommand(commands...)
}
