package main

import (
	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/demo"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

func newDemoCommand() *cobra.Command {
	var s settings
	cmd := demo.NewCommand("quoin demo", func() (*publication.Cluster, error) { return s.cluster("") })
	s.addFlags(cmd)
	s.fileFlags(cmd)
	return cmd
}
