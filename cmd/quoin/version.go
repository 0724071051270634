package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/cmd/version"
)

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the release, the commit and the compiler of this program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == outputJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(version.Get())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "quoin", version.Get())
			return err
		},
	}
	show.AddOutput(cmd, &output, "text", outputJSON)
	return cmd
}
