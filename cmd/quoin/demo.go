package main

import (
	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/demo"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

func newDemoCommand() *cobra.Command {
	var s settings
	var name string // of the publication
	cmd := demo.NewCommand("quoin demo", func() (*publication.Cluster, error) {
		_, pub, err := s.cluster(name)
		return pub, err
	})
	cmd.Flags().StringVar(&name, "publication", "", "`name` of the publication in the configuration; needed if there are several")
	s.addFlags(cmd)
	s.fileFlags(cmd)
	return cmd
}
