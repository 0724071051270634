package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/findings"
	"github.com/quoin-hpc/quoin/cmd/quoin/reports"
	"github.com/quoin-hpc/quoin/cmd/quoin/terminal"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

func newMapCommand() *cobra.Command {
	var o renderOptions
	var published bool
	cmd := &cobra.Command{
		Use:   "map (--kubeconfig FILE | --nodes FILE|- | REPORT.json|DIR... | --store DIR)",
		Short: "Draw a cluster: blocks, switches, and how its nodes are",
		Long: `map draws what render would write: a row for each block with a cell for each node,
and the switch tree. It lists the nodes that have no place with the reason, and what
is wrong. -o svg draws racks. -o html writes one file: a page of racks with a search and
the facts of each node, which needs no network. The publisher serves the same page live,
with jobs.

With --published or --store map draws the publisher's stored plan and not what render
would write. If Slurm can be asked, -o html and json have the running jobs. map says what
is held. It always draws blocks and switches, even if the publication lets render
write only one of them.

Exit status: 0 fine; 1 a report cannot be read (ReportUnreadable), and the rest is
drawn; 2 nothing was drawn.`,
		Example: `  kubectl get nodes -o json | quoin map --nodes -
  quoin map --kubeconfig ~/.kube/config -o html > map.html
  quoin map --kubeconfig ~/.kube/config --published
  quoin map --store /shared/quoin
  quoin map /shared/quoin/reports`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if published = published || cmd.Flags().Changed("store"); published && len(args) > 0 {
				return errors.New("a stored plan beside reports: want one of them")
			} else if published {
				return o.drawPublished(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			made, facts, err := o.render(cmd.Context(), cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			site := &picture.Site{Plan: made.Plan, Facts: facts}
			if o.output == outputJSON {
				return cmp.Or(findings.JSON(cmd.OutOrStdout(), mapped{topology.APIVersion, "Map", picture.DocumentOf(site),
					findings.Group(findings.Of(made.Left)), findings.Group(findings.Of(reports.Unread(made.Problems)))}), errUnread(made))
			}
			findings.Print(cmd.ErrOrStderr(), "problem: ", findings.Of(reports.Unread(made.Problems)))
			if len(made.Unnamed) > 0 && o.output == "text" {
				findings.Print(cmd.OutOrStdout(), "without a Slurm name: ", findings.Of(made.Unnamed))
				fmt.Fprintln(cmd.OutOrStdout())
			}
			return cmp.Or(o.draw(cmd.OutOrStdout(), site), errUnread(made))
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

// draw draws the site as text or as one of the drawings.
func (o *renderOptions) draw(w io.Writer, site *picture.Site) error {
	if draw := picture.Drawings[o.output]; draw != nil {
		return draw(w, site)
	}
	s := terminal.New(w)
	return picture.Terminal(s, site, picture.Options{Color: s.Color, Width: min(s.Width, 160)})
}

// mapped is the document of quoin map.
type mapped struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	picture.Document
	LeftOut []findings.Finding `json:"leftOut"`
	// Problems are reports that cannot be read. The plan has all other problems.
	Problems []findings.Finding `json:"problems"`
}
