package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

func newMapCommand() *cobra.Command {
	var o freshOptions
	cmd := &cobra.Command{
		Use:   "map [--fresh | --nodes FILE | REPORT...]",
		Short: "Draw a cluster: blocks, switches and node health",
		Long: `map draws the publisher's stored plan of a cluster or a directory, and says what is held.
With --fresh, --nodes or reports it draws what render would write, and always blocks and
switches, even if the publication lets render write only one of them.

It draws a row for each block with a cell for each node, and the switch tree. It lists
the nodes that have no place with the reason, and what is wrong. -o svg draws racks. -o
html writes one file: a page of racks with a search and the facts of each node, which
needs no network. The publisher serves the same page live, with jobs.

It shows of each node whether it is healthy, ready for IMEX and at its published place, as
the publisher's conditions of the Nodes say. It shows Slurm's states of nodes, and the
running jobs, if slurm.url or slurm.scontrol of the publication say how to ask Slurm.
Without them the conditions of Slinky's worker pods have the states.

Exit status: 3 if a report cannot be read (ReportUnreadable) and the rest is drawn.`,
		Example: `  quoin map
  quoin map --context blue -o html > map.html
  quoin map --store /shared/quoin
  kubectl get nodes -o json | quoin map --nodes -
  quoin map /shared/quoin/reports`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return err
			}
			drawn, err := o.site(cmd, args)
			if err != nil {
				return err
			}
			return cmp.Or(o.draw(cmd.OutOrStdout(), cmd.ErrOrStderr(), drawn), errUnread(cmd.ErrOrStderr(), drawn.problems))
		},
	}
	o.addFlags(cmd, "text", "svg", "html", outputJSON)
	o.addFileFlags(cmd)
	o.addFresh(cmd)
	return cmd
}

// drawing is a site to draw, and what is said beside it.
type drawing struct {
	*picture.Site
	left, unnamed, problems []topology.Finding
}

// site returns what there is to draw: what is published, or else what render makes.
func (o *freshOptions) site(cmd *cobra.Command, paths []string) (*drawing, error) {
	ctx := cmd.Context()
	s, pub, err := o.open(cmd, o.given(paths), nodesOrReports)
	if err != nil {
		return nil, err
	}
	hosts := imex.NewHosts(s.Config.IMEX)
	if s.Cluster != nil || o.nodes != "" { // Kubernetes knows
		hosts = nil
	}
	if s.Store != nil && !o.fresh {
		site, err := page.NewSource(s.Store, []*publication.Cluster{pub}, o.asked(pub), hosts).Site(ctx, pub.Name)
		if err == nil && site.Plan.Format == "" {
			fmt.Fprintln(cmd.ErrOrStderr(), "quoin: no plan is stored there: --fresh draws what render would write")
		}
		return &drawing{Site: site}, err
	}
	made, err := o.makeFresh(ctx, cmd.InOrStdin(), s, pub, paths)
	if err != nil {
		return nil, err
	}
	site := &picture.Site{Publication: pub.Name, Plan: made.Plan, Facts: made.in.Facts}
	known := page.Known{Snapshot: made.snap, Inputs: &made.in, Slurm: o.asked(pub), Published: made.Topologies(), Hosts: hosts}
	known.AddTo(ctx, site)
	return &drawing{site, made.Left, made.Unnamed, made.Problems}, nil
}

// asked asks the Slurm of a publication once, if it can be asked. On a large site Slurm takes
// long to list the GPUs of all jobs. Text and SVG do not show them.
func (o *freshOptions) asked(pub *publication.Cluster) *page.Asked {
	log := slog.New(slog.DiscardHandler)
	keeper := occupancy.New(slurmOfAll([]*publication.Cluster{pub}, log), log)
	keeper.Details = o.output == outputJSON || o.output == "html"
	asked := page.NewAsked(keeper)
	asked.Wait = true
	return asked
}

// draw draws the site in the form that is asked for, and says what is wrong.
func (o *freshOptions) draw(stdout, stderr io.Writer, d *drawing) error {
	for _, trouble := range d.Trouble {
		fmt.Fprintf(stderr, "problem: %s\n", trouble)
	}
	if d.Held != nil {
		for _, h := range d.Held.Holds {
			fmt.Fprintf(stderr, "held since %s: %s: %s\n", h.Since, h.Reason, h.Message)
		}
	}
	unread := session.Unread(d.problems)
	if o.output == outputJSON {
		return show.JSON(stdout, mapped{topology.APIVersion, "Map", picture.DocumentOf(d.Site), show.Groups(d.left), show.Groups(unread)})
	}
	show.Print(stderr, "problem: ", unread)
	if draw := picture.Drawings[o.output]; draw != nil {
		return draw(stdout, d.Site)
	}
	if len(d.unnamed) > 0 {
		show.Print(stdout, "without a Slurm name: ", d.unnamed)
		fmt.Fprintln(stdout)
	}
	s := show.NewScreen(stdout)
	return picture.Terminal(s, d.Site, picture.Options{Color: s.Color, Width: min(s.Width, 160)})
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
