package main

import (
	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/demo"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
)

func newDemoCommand() *cobra.Command {
	var s session.Flags
	cmd := demo.NewCommand("quoin demo", s.LoadPublication)
	s.AddPublication(cmd)
	s.Add(cmd)
	s.AddFiles(cmd)
	return cmd
}
