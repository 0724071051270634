package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/doctor"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/cmd/version"
)

// lookTime bounds how long doctor and status look.
const lookTime = 10 * time.Second

func newDoctorCommand() *cobra.Command {
	var s settings
	var kubeconfig, output, only, hookDir string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with the installation on a cluster or on this node, and the command that fixes it",
		Long: `doctor looks at a cluster (Quoin's own objects, Slinky's Controllers and NodeSets, GPU
Operator's ClusterPolicy, NVIDIA's DeviceClasses, the admission policies) and at this
machine, if it is a GPU node. It changes nothing. A dry run on the API server tries
whether a stolen agent token would be refused.

Exit status: 1 if something does not work, 3 if something could not be seen.`,
		Example: `  quoin doctor
  kubectl -n quoin-node exec ds/quoin-agent -- quoin doctor --only node
  quoin doctor -o json`,
		Args: cobra.NoArgs,
		RunE: s.run(func(cmd *cobra.Command, conf *config.Config, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), lookTime)
			defer cancel()
			found, err := doctor.Look(ctx, doctor.Options{Config: conf, Kubeconfig: kubeconfig, Only: only, HookDir: hookDir, Version: version.Number})
			if err != nil {
				return err
			}
			r := show.Result{Kind: "Diagnosis", Summary: []string{show.Counts(found)}, Findings: found}
			if output == outputJSON {
				return r.JSON(cmd.OutOrStdout())
			}
			return r.Table(cmd.OutOrStdout()).AsError()
		}),
	}
	s.addFlags(cmd)
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server; default: as kubectl, or as a Pod")
	cmd.Flags().StringVar(&only, "only", "", "look at the `part` cluster or node only")
	complete(cmd, "only", cobra.ShellCompDirectiveNoFileComp, "cluster", "node")
	cmd.Flags().StringVar(&hookDir, "hook-dir", "/opt/quoin/bin", "`directory` from which slurmd runs the hook")
	outputFlag(cmd, &output, "text", outputJSON)
	return cmd
}

func newStatusCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print a health summary of Quoin on a cluster",
		Long: `status prints a health summary of Quoin on a cluster: nodes, agents, publishers, files
and IMEX, and how much quoin doctor finds.

Exit status: as quoin doctor: 1 if something does not work, 3 if something could not be seen.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), lookTime)
			defer cancel()
			found, err := doctor.Status(ctx, cmd.OutOrStdout(), kubeconfig, version.Number)
			if err != nil {
				return err
			}
			return show.Code(found).AsError()
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server; default: as kubectl, or as a Pod")
	return cmd
}
