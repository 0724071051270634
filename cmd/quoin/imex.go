package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// newIMEXCommand returns the commands about the IMEX domain.
func newIMEXCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "imex COMMAND", Short: "Name the nodes without IMEX, or help to run the machines' own nvidia-imex.service"}
	show.CommandGroup(cmd)
	var clique, dir string
	nodes := newPlanSubcommand("nodes-config", "Print the nodes_config.cfg of a clique: the addresses of its nodes in the published plan, the same on every node", cobra.NoArgs,
		func(r *planRun, _ []string) error {
			return printNodesConfig(r.Context(), r.out, r.doc, clique, dir, r.store.Addresses)
		})
	nodes.Flags().StringVar(&clique, "clique", "", "the `clique`, as quoin discover prints it, or the name of its block")
	nodes.Flags().StringVar(&dir, "dir", "", "write nodes_config.cfg and nodes_names.cfg, the nodes' names in Slurm, into this `directory` instead of printing nodes_config.cfg")
	_ = nodes.MarkFlagRequired("clique") // fails only if there is no such flag
	cmd.AddCommand(newIMEXCheckCommand(), nodes)
	return cmd
}

func newIMEXCheckCommand() *cobra.Command {
	var flags session.Flags
	var output, objects string
	cmd := &cobra.Command{
		Use:   "check [--objects FILE] [REPORT...]",
		Short: "Name each node that is no member of the IMEX domain, and say what to do",
		Long: `check reads the cluster's nodes, ComputeDomains, claims and pods. It names each node that
is no member of the IMEX domain, and says what to do there. Reports add what NVML says,
and what the nodes say of their daemons and channels.

Exit status: 1 if a node that needs it is no member, 3 if something could not be judged.`,
		Example: `  quoin imex check
  ` + computedomain.ListCommand + ` | quoin imex check --objects -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := members(cmd, &flags, objects, args)
			if err != nil {
				return err
			}
			return printResult(cmd.OutOrStdout(), output, r)
		},
	}
	cmd.Flags().StringVar(&objects, "objects", "", "`file` with the output of "+computedomain.ListCommand+", - for standard input")
	flags.Add(cmd)
	flags.AddSources(cmd)
	exclude(cmd, "objects", sourceFlags...)
	show.AddOutput(cmd, &output, "text", outputJSON)
	return cmd
}

// members names the nodes that are no members of the IMEX domain.
func members(cmd *cobra.Command, flags *session.Flags, list string, paths []string) (*show.Result, error) {
	other := "--objects FILE (- for standard input)"
	if len(paths) > 0 {
		other += ", because reports name no ComputeDomain and no claim"
	}
	s, err := openSession(cmd, flags, list != "", other)
	if err != nil {
		return nil, err
	}
	if list == "" && s.Cluster == nil {
		return nil, errors.New("a directory has no ComputeDomains and no claims: want " + other + ", or a cluster")
	}
	objects := computedomain.NewObjects(s.Config.IMEX)
	live := list == "" // all kinds are asked for, and what is not there is known
	objects.ClassesRead = live
	pods := live
	snap, name, err := s.ReadDomain(cmd.Context(), cmd.InOrStdin(), list, func(kind string, object []byte) error {
		pods = pods || kind == "Pod"
		return objects.Add(kind, object)
	})
	if err != nil {
		return nil, err
	}
	if !pods { // no cluster is without: the list lacks kinds
		return nil, fmt.Errorf("%s: no Pod in it: want the output of %s", name, computedomain.ListCommand)
	}
	if err := session.AddReports(snap, paths); err != nil {
		return nil, err
	}
	seen := objects.Seen()
	judged, err := judgeFabrics(cmd.Context(), s, snap)
	if err != nil {
		return nil, err
	}
	seen.Nodes = nodestatus.Members(snap, nodestatus.Fabrics(snap, publication.AnyFabrics(s.Config.Clusters()), judged...))
	r := show.MembersResult(seen)
	r.Found(snap.Problems...)
	return r, nil
}

// judgeFabrics judges the NVLink fabrics of the nodes of each publication by its stored plan. With lists from files
// there is no plan.
func judgeFabrics(ctx context.Context, s *session.Session, snap *inputs.Snapshot) (judged []map[string]topology.FabricVerdict, err error) {
	for _, pub := range s.Config.Clusters() {
		fabrics := pub.FabricSite(nil, nil)
		if s.Store != nil {
			switch doc, err := s.Store.LoadPlan(ctx, pub.Name); {
			case err != nil:
				return nil, err
			case doc != nil:
				fabrics = pub.FabricSite(&doc.Current.Plan.Plan, doc.FabricSince)
			}
		}
		in := pub.Rules.Gather(snap)
		fabrics.Judge(in.Facts, in.UnnamedFacts)
		judged = append(judged, fabric.Verdicts(in.Facts, in.UnnamedFacts))
	}
	return judged, nil
}
