package main

import (
	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
)

func newConfigCommand() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration with its defaults filled in, or what is wrong with it",
		Example: `  quoin config
  quoin config --config quoin.yaml
  quoin config --config quoin.yaml --set publicationDefaults.format=conf`,
		Args: cobra.NoArgs,
		RunE: s.run(func(cmd *cobra.Command, c *config.Config, _ []string) error {
			return c.Write(cmd.OutOrStdout())
		}),
	}
	s.addFlags(cmd)
	return cmd
}
