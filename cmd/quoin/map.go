package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/reports"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

func newMapCommand() *cobra.Command {
	var o renderOptions
	var published bool
	cmd := &cobra.Command{
		Use:   "map (--kubeconfig FILE | --nodes FILE | --store DIR | REPORT...)",
		Short: "Draw a cluster: blocks, switches and node health",
		Long: `map draws what render would write: a row for each block with a cell for each node,
and the switch tree. It lists the nodes that have no place with the reason, and what
is wrong. -o svg draws racks. -o html writes one file: a page of racks with a search and
the facts of each node, which needs no network. The publisher serves the same page live,
with jobs.

It shows of each node whether it is healthy, ready for IMEX and at its published place, as
the publisher's conditions of the Nodes say. It shows Slurm's states of nodes, and the
running jobs, if slurm.url or slurm.scontrol of the publication say how to ask Slurm.
Without them the conditions of Slinky's worker pods have the states.

With --published or --store map draws the publisher's stored plan and not what render
would write, and says what is held. It always draws blocks and switches, even if the
publication lets render write only one of them.

Exit status: 3 if a report cannot be read (ReportUnreadable) and the rest is drawn.`,
		Example: `  kubectl get nodes -o json | quoin map --nodes -
  quoin map --kubeconfig ~/.kube/config -o html > map.html
  quoin map --kubeconfig ~/.kube/config --published
  quoin map --store /shared/quoin
  quoin map /shared/quoin/reports`,
		RunE: func(cmd *cobra.Command, args []string) error {
			published = published || cmd.Flags().Changed("store")
			if published && len(args) > 0 {
				return errors.New("a stored plan beside reports: want one of them")
			}
			site, made, err := o.drawn(cmd.Context(), cmd.InOrStdin(), args, published)
			if err != nil {
				return err
			}
			return cmp.Or(o.draw(cmd.OutOrStdout(), cmd.ErrOrStderr(), site, made), errUnread(cmd.ErrOrStderr(), made))
		},
	}
	o.addFlags(cmd, "text", "svg", "html", outputJSON)
	cmd.Flags().BoolVar(&published, "published", false, "with --kubeconfig: draw the publisher's stored plan")
	o.keyFlag(cmd, "store", "publisher.store", "draw the stored plan of a publisher that works in this `directory`")
	for _, other := range []string{"nodes", "previous"} {
		cmd.MarkFlagsMutuallyExclusive("published", other)
		cmd.MarkFlagsMutuallyExclusive("store", other)
	}
	cmd.MarkFlagsMutuallyExclusive("store", "kubeconfig")
	return cmd
}

// drawn returns what there is to draw: what is published, or else what render makes.
func (o *renderOptions) drawn(ctx context.Context, stdin io.Reader, paths []string, published bool) (*picture.Site, *publisher.Rendered, error) {
	if published {
		site, err := o.published(ctx)
		return site, &publisher.Rendered{}, err
	}
	made, from, err := o.render(ctx, stdin, paths)
	if err != nil {
		return nil, nil, err
	}
	site := &picture.Site{Publication: from.pub.Name, Plan: made.Plan, Facts: from.in.Facts}
	known := page.Known{Snapshot: from.snap, Inputs: &from.in, Slurm: o.asked(from.pub), Published: made.Topologies()}
	if o.nodes == "" && o.kubeconfig == "" { // reports alone
		known.Hosts = imex.NewHosts(from.conf.IMEX)
	}
	known.AddTo(ctx, site)
	return site, made, nil
}

// draw draws the site in the form that is asked for, and says what is wrong.
func (o *renderOptions) draw(stdout, stderr io.Writer, site *picture.Site, made *publisher.Rendered) error {
	for _, trouble := range site.Trouble {
		fmt.Fprintf(stderr, "problem: %s\n", trouble)
	}
	if site.Held != nil {
		for _, h := range site.Held.Holds {
			fmt.Fprintf(stderr, "held: %s: %s\n", h.Reason, h.Message)
		}
	}
	unread := reports.Unread(made.Problems)
	if o.output == outputJSON {
		return show.JSON(stdout, mapped{topology.APIVersion, "Map", picture.DocumentOf(site), show.Groups(made.Left), show.Groups(unread)})
	}
	show.Print(stderr, "problem: ", unread)
	if draw := picture.Drawings[o.output]; draw != nil {
		return draw(stdout, site)
	}
	if len(made.Unnamed) > 0 {
		show.Print(stdout, "without a Slurm name: ", made.Unnamed)
		fmt.Fprintln(stdout)
	}
	s := show.NewScreen(stdout)
	return picture.Terminal(s, site, picture.Options{Color: s.Color, Width: min(s.Width, 160)})
}

// mapped is the document of quoin map.
type mapped struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	picture.Document
	LeftOut []show.Group `json:"leftOut"`
	// Problems are reports that cannot be read. The plan has all other problems.
	Problems []show.Group `json:"problems"`
}
