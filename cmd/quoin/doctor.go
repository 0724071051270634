package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/doctor"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/cmd/version"
)

// lookTime bounds how long doctor looks.
const lookTime = 10 * time.Second

func newDoctorCommand() *cobra.Command {
	var flags session.Flags
	var output string
	var o doctor.Options
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with the installation on a cluster or on this node, and the command that fixes it",
		Long: `doctor looks at a cluster (Quoin's own objects, Slinky's Controllers and NodeSets, GPU
Operator's ClusterPolicy, NVIDIA's DeviceClasses, the admission policies) and at this
machine, if it is a GPU node. It names the nodes on which a condition of the publisher
reports a fault of fabric, IMEX or place. The first line says how large the cluster is, and
which publisher leads. doctor changes nothing. A dry run on the API server tries whether a
stolen agent token would be refused.

Exit status: 1 if something does not work, 3 if something could not be seen.`,
		Example: `  quoin doctor
  kubectl -n quoin-node exec ds/quoin-agent -- quoin doctor --only node
  quoin doctor -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), lookTime)
			defer cancel()
			if err := openDoctor(ctx, cmd.ErrOrStderr(), &flags, &o); err != nil {
				return err
			}
			head, found, err := doctor.Look(ctx, &o)
			if err != nil {
				return err
			}
			r := show.Result{Kind: "Diagnosis", Summary: []string{show.Counts(found)}, Findings: found}
			if output == outputJSON {
				return r.JSON(cmd.OutOrStdout())
			}
			if head != "" {
				fmt.Fprintln(cmd.OutOrStdout(), head)
			}
			return r.Table(cmd.OutOrStdout()).AsError()
		},
	}
	flags.Add(cmd)
	flags.AddSources(cmd)
	cmd.Flags().StringVar(&o.Only, "only", "", "look at the `part` cluster or node only")
	show.Complete(cmd, "only", cobra.ShellCompDirectiveNoFileComp, doctor.PartCluster, doctor.PartNode)
	cmd.Flags().StringVar(&o.HookDir, "hook-dir", "", "`directory` from which slurmd runs the hook; default: /usr/lib/quoin if agent.store is set, else /opt/quoin/bin")
	show.AddOutput(cmd, &output, "text", outputJSON)
	return cmd
}

// openDoctor opens what doctor looks at. A node has no cluster if nothing names one.
func openDoctor(ctx context.Context, stderr io.Writer, flags *session.Flags, o *doctor.Options) error {
	o.Version = version.Number
	if o.Node = os.Getenv("NODE_NAME"); o.Node == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("find this machine's name: %w", err)
		}
		o.Node = host
	}
	var s *session.Session
	var err error
	switch o.Only {
	case doctor.PartNode:
		s, err = flags.OpenLocal(stderr)
	case "", doctor.PartCluster:
		s, err = flags.Open(ctx, stderr)
	default:
		return fmt.Errorf("--only %s: want cluster or node", o.Only)
	}
	if s != nil {
		o.Config, o.Cluster, o.Commands = s.Config, s.Cluster, s.Commands()
	}
	switch unread := (*session.ConfigError)(nil); {
	case errors.As(err, &unread):
		o.ConfigErr = err
		return nil
	case errors.Is(err, session.ErrNoCluster) && o.Only == "" && o.IsNode():
		return nil
	case err != nil:
		return err
	case s.Cluster == nil && o.Only != doctor.PartNode && (o.Only != "" || !o.IsNode()):
		return errors.New("there is no cluster to look at, because the publisher works in a directory: want --only node, on a GPU node")
	}
	o.Publications, err = s.Publications()
	return err
}

// newStatusCommand refuses the name of a command that went, whatever its flags are.
func newStatusCommand() *cobra.Command {
	return &cobra.Command{Use: "status", Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
		return errors.New("there is no command status: what it said is the head of quoin doctor")
	}}
}
