package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/findings"
	"github.com/quoin-hpc/quoin/cmd/quoin/reports"
	"github.com/quoin-hpc/quoin/cmd/quoin/terminal"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

func newMapCommand() *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "map (--kubeconfig FILE | --nodes FILE|- | REPORT.json|DIR...)",
		Short: "Draw a cluster: blocks, switches, and how its nodes are",
		Long: `map draws what render would write: a row for each block with a cell for each node,
and the switch tree. It lists the nodes that have no place with the reason, and what
is wrong. -o svg draws racks. -o html writes one file: a page of racks with a search and
the facts of each node, which needs no network. The publisher serves the same page live,
with jobs. map always draws blocks and switches, even if the publication lets render
write only one of them.

Exit status: 0 fine; 1 a report cannot be read (ReportUnreadable), and the rest is
drawn; 2 nothing was drawn.`,
		Example: `  kubectl get nodes -o json | quoin map --nodes -
  quoin map --kubeconfig ~/.kube/config -o html > map.html
  quoin map /shared/quoin/reports`,
		RunE: func(cmd *cobra.Command, args []string) error {
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
			if draw := picture.Drawings[o.output]; draw != nil {
				return cmp.Or(draw(cmd.OutOrStdout(), site), errUnread(made))
			}
			s := terminal.New(cmd.OutOrStdout())
			if len(made.Unnamed) > 0 {
				findings.Print(s, "without a Slurm name: ", findings.Of(made.Unnamed))
				fmt.Fprintln(s)
			}
			return cmp.Or(picture.Terminal(s, site, picture.Options{Color: s.Color, Width: min(s.Width, 160)}), errUnread(made))
		},
	}
	o.addFlags(cmd, "text", "svg", "html", outputJSON)
	return cmd
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
