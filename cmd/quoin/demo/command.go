package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// NewCommand returns the command that shows a site. called is what users type: "quoin demo", or
// "quoin-demo" for a program of its own. After the flags were read, pub returns the publication,
// which says what files are made.
func NewCommand(called string, pub func() (*publication.Cluster, error)) *cobra.Command {
	var list bool
	var o Options
	program, name, isPart := strings.Cut(called, " ")
	if !isPart {
		name = program
	}
	cmd := &cobra.Command{
		Use:   name + " [SITE | FILE.yaml]",
		Short: "Show a simulated site: its map, its Slurm files and what to try next",
		Long: name + ` runs the agent's and the publisher's code on a simulated site in this
process, with a directory as the store: no cluster, no GPU, no root. SITE is one
of --list, FILE.yaml a site of your own.`,
		Example: strings.ReplaceAll(`  DEMO
  DEMO --watch
  DEMO --watch --page 127.0.0.1:8080
  DEMO hgx-h100 --slurm-version 24.11`, "DEMO", called),
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(simulated.Shipped(), cobra.ShellCompDirectiveDefault),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				return List(cmd.OutOrStdout())
			}
			if o.Pause < 0 {
				return fmt.Errorf("--pause %s: want 0 or more", o.Pause)
			}
			var err error
			if o.Publication, err = pub(); err != nil {
				return err
			}
			if p := o.Publication; p.SlurmVersion == "" { // which the simulated Slurm has
				p.SlurmVersion, p.Release = slurmconf.Latest.String(), slurmconf.Latest
				p.Follow(0, nil)
			}
			if len(args) > 0 {
				o.Site = args[0]
			}
			const own = "kubectl get nodes -o json | %s render --nodes -"
			o.Demo, o.OwnCluster = Program(), "make build && "+fmt.Sprintf(own, "bin/quoin")
			if isPart {
				o.Demo, o.OwnCluster = Program()+" "+name, fmt.Sprintf(own, Program())
			}
			return Run(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Watch, "watch", false, "play what happens at the site over a day")
	f.BoolVar(&list, "list", false, "list the sites that come with quoin")
	f.StringVar(&o.Page, "page", "", "serve the map as a page at this `address`, with simulated jobs, until Ctrl-C")
	f.StringVar(&o.Store, "store", "", "keep reports and files in this `directory`; default: a temporary one, removed at the end")
	f.DurationVar(&o.Pause, "pause", 2500*time.Millisecond, "pause between two moments of --watch")
	return cmd
}

// Program is how the user started this program.
func Program() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/" + filepath.Base(os.Args[0])
	}
	return os.Args[0]
}
