package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// mapOptions are the flags of quoin map.
type mapOptions struct {
	freshOptions
	topology string
}

func newMapCommand() *cobra.Command {
	var o mapOptions
	cmd := &cobra.Command{
		Use:   "map [PATH | --fresh | --nodes FILE | REPORT...]",
		Short: "Draw a cluster: blocks, switches and node health",
		Long: `map draws the stored plan of a cluster or a directory: a row for each block with a cell
for each node, then the switch tree, the nodes without a place and why, and what is wrong
now or held. -o html writes a page of racks with a search, as one file that needs no network.
The publisher serves the same page live.

  --fresh, --nodes, reports   draw what render would write, blocks and switches in any case
  PATH                        draws topology files of any Slurm, of a directory or one file:
                              the first block topology and the first tree, or the one that
                              --topology names
  --ibnetdiscover             draws the switches of an InfiniBand fabric by the output of
                              ibnetdiscover, plain or by gzip. Reports say which node has an
                              adapter. Without reports the descriptions of adapters do, such
                              as "n07 mlx5_0"; without --nodes, too, all hosts are drawn

The state of a node (healthy, ready for IMEX, at its published place) comes from the
conditions of its Node. The states and jobs of Slurm come from Slurm, if slurm.url or
slurm.scontrol of the publication is set, else the states from Slinky's worker pods.

Exit status: 1 if Slurm would not take the files of PATH; 3 if that is not known, or a
report cannot be read (ReportUnreadable). The rest is drawn in each case.`,
		Example: `  quoin map
  quoin map --context blue -o html > map.html
  quoin map --store /shared/quoin
  quoin map /etc/slurm
  sudo ibnetdiscover | quoin map --ibnetdiscover -
  kubectl get nodes -o json | quoin map --nodes -
  quoin map /shared/quoin/reports`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := o.takeArgs(args)
			if err != nil {
				return err
			}
			drawn, err := o.site(cmd, args)
			if err != nil {
				return err
			}
			return cmp.Or(o.draw(cmd.OutOrStdout(), cmd.ErrOrStderr(), drawn), show.Code(drawn.files).AsError(), errUnread(cmd.ErrOrStderr(), drawn.problems))
		},
	}
	o.addFlags(cmd, "text", "html", outputJSON)
	o.addFileFlags(cmd)
	o.addFresh(cmd)
	o.addCables(cmd)
	exclude(cmd, "fresh", "ibnetdiscover")
	cmd.Flags().StringVar(&o.topology, "topology", "", "`name` of the topology of PATH that is drawn")
	return cmd
}

// drawing is a site to draw, and what is said beside it.
type drawing struct {
	*picture.Site
	left, unnamed, problems []topology.Finding
	// files says why Slurm does not take the files of PATH, or that this is not known.
	files []topology.Finding
	// partitions are the lines of slurm.conf that the topologies need.
	partitions []string
}

// site returns what there is to draw: what is published, or else what render makes.
func (o *mapOptions) site(cmd *cobra.Command, reports []string) (*drawing, error) {
	switch {
	case o.files != "":
		return o.ofFiles(cmd)
	case o.topology != "":
		return nil, errors.New("--topology: want Slurm's files beside it, because a plan is drawn whole")
	}
	w, err := o.open(cmd, reports, filesOrThese)
	if err != nil {
		return nil, err
	}
	ctx, pub, hosts := cmd.Context(), w.pub, imex.NewHosts(w.Config.IMEX)
	if w.Cluster != nil || o.nodes != "" { // Kubernetes knows
		hosts = nil
	}
	if w.Store != nil && !o.fresh {
		site, err := page.NewSource(w.Store, w.Config.Clusters(), o.asked(pub), hosts).Site(ctx, pub.Name)
		if err == nil && slices.Contains(site.Trouble, page.NothingPublished) {
			fmt.Fprintln(cmd.ErrOrStderr(), "quoin: no plan is stored there: --fresh draws what render would write")
		}
		if err != nil {
			return nil, err
		}
		return &drawing{Site: site, partitions: slurmconf.PartitionLines(site.Plan.Topologies)}, nil
	}
	made, err := o.makeFresh(w)
	if err != nil {
		return nil, err
	}
	made.sayNames(cmd.ErrOrStderr())
	site := &picture.Site{Publication: pub.Name, Plan: made.Plan, Facts: made.Judged}
	known := page.Known{Snapshot: made.snap, Inputs: &made.in, Slurm: o.asked(pub), Published: made.FilePlan.Topologies, Fresh: true, Hosts: hosts, Fabrics: pub.FabricSite(nil, nil)}
	known.AddTo(ctx, site)
	return &drawing{Site: site, left: made.Left, unnamed: made.in.Unnamed, problems: made.FilePlan.Problems, partitions: made.Partitions()}, nil
}

// ofFiles returns what topology files say. Nobody says how the nodes are, unless Slurm is asked.
func (o *mapOptions) ofFiles(cmd *cobra.Command) (*drawing, error) {
	w, err := o.open(cmd, nil, "")
	if err != nil {
		return nil, err
	}
	read, err := readTopologies(o.files, w.pub)
	if err != nil {
		return nil, err
	}
	plan := &read.Plan
	var names, left []string
	all := plan.Topologies
	plan.Topologies = plan.Own()
	for i := range all {
		names = append(names, all[i].Name)
		if all[i].Name == o.topology {
			plan.Topologies = all[i : i+1]
		} else if o.topology == "" && all[i].Kind != topology.KindFlat && !slices.ContainsFunc(plan.Topologies, func(t topology.Topology) bool { return t.Name == all[i].Name }) {
			left = append(left, all[i].Name)
		}
	}
	switch {
	case o.topology != "" && !slices.Contains(names, o.topology):
		return nil, fmt.Errorf("--topology %s: want one of %s", o.topology, strings.Join(names, ", "))
	case plan.Topologies == nil || plan.Topologies[0].Kind == topology.KindFlat:
		return nil, fmt.Errorf("%s: a flat topology has no places to draw", o.files)
	case len(left) > 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "quoin: not drawn: %s; --topology draws one of them\n", strings.Join(left, ", "))
	}
	site := &picture.Site{Publication: w.pub.Name, Plan: plan}
	for _, f := range read.trouble {
		site.Trouble = append(site.Trouble, f.Message)
	}
	for name, at := range plan.Places() {
		reason := placement.ReasonPlaced
		if at.Block == "" && len(plan.BlockTopologies()) > 0 {
			reason = topology.ReasonNoBlock
		}
		plan.Nodes = append(plan.Nodes, topology.Placement{Node: name, SlurmName: name, Source: topology.SourceFile, Reason: reason})
		site.Facts = append(site.Facts, topology.Facts{Name: name, SlurmName: name})
	}
	slices.SortFunc(plan.Nodes, func(a, b topology.Placement) int { return strings.Compare(a.SlurmName, b.SlurmName) })
	known := page.Known{Snapshot: &inputs.Snapshot{}, Inputs: &inputs.Inputs{}, Slurm: o.asked(w.pub), Published: plan.Topologies}
	known.AddTo(cmd.Context(), site)
	return &drawing{Site: site, files: read.trouble}, nil
}

// asked asks the Slurm of a publication once, if it can be asked. On a large site Slurm takes
// long to list the GPUs of all jobs. Text does not show them.
func (o *freshOptions) asked(pub *publication.Cluster) *page.Asked {
	log := slog.New(slog.DiscardHandler)
	keeper := occupancy.New(slurmOfAll([]*publication.Cluster{pub}, log))
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
	show.Partitions(stderr, "", d.partitions)
	if o.output == "html" {
		return picture.HTML(stdout, d.Site)
	}
	if len(d.unnamed) > 0 {
		show.Print(stdout, "without a Slurm name: ", d.unnamed)
		fmt.Fprintln(stdout)
	}
	s := show.NewScreen(stdout)
	return picture.Terminal(s, d.Site, picture.Options{Color: s.Color, Width: min(s.Width, 160), Problems: show.Lines(d.Plan.Problems)})
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
