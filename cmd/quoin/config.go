package main

import (
	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
)

func newConfigCommand() *cobra.Command {
	var s session.Flags
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration with its defaults filled in, or what is wrong with it",
		Example: `  quoin config
  quoin config --config quoin.yaml
  quoin config --config quoin.yaml --set publicationDefaults.format=conf`,
		Args: cobra.NoArgs,
		RunE: s.Run(func(cmd *cobra.Command, c *config.Config, _ []string) error {
			return c.Write(cmd.OutOrStdout())
		}),
	}
	s.Add(cmd)
	return cmd
}
