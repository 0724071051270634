package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/demo"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

func newDemoCommand() *cobra.Command {
	var s settings
	var list bool
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo [SITE | FILE.yaml]",
		Short: "Show a simulated site: its map, its Slurm files and what to try next",
		Long: `demo runs the agent's and the publisher's code on a simulated site in this
process, with a directory as the store: no cluster, no GPU, no root. SITE is one
of --list, FILE.yaml a site of your own.`,
		Example: `  quoin demo
  quoin demo --watch
  quoin demo --watch --page 127.0.0.1:8080
  quoin demo hgx-h100 --format conf --slurm-version 24.11`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(simulated.Shipped(), cobra.ShellCompDirectiveDefault),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				return demo.List(cmd.OutOrStdout())
			}
			if o.Pause < 0 {
				return fmt.Errorf("--pause %s: want 0 or more", o.Pause)
			}
			var err error
			if o.Publication, err = s.cluster(""); err != nil {
				return err
			}
			if len(args) > 0 {
				o.Site = args[0]
			}
			o.Program = demo.Program()
			return demo.Run(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Watch, "watch", false, "play what happens at the site over a day")
	f.BoolVar(&list, "list", false, "list the sites that come with quoin")
	f.StringVar(&o.Page, "page", "", "serve the map as a page at this `address`, with simulated jobs, until Ctrl-C")
	f.StringVar(&o.Store, "store", "", "keep reports and files in this `directory`; default: a temporary one, removed at the end")
	f.DurationVar(&o.Pause, "pause", 2500*time.Millisecond, "pause between two moments of --watch")
	s.addFlags(cmd)
	s.fileFlags(cmd)
	return cmd
}
