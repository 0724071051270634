package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/plan"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// planOptions are the flags of quoin plan.
type planOptions struct {
	settings
	publication, output, by, clique string
}

// planRun is what a subcommand works with.
type planRun struct {
	*cobra.Command
	out   io.Writer
	store planStore
	pub   *publication.Cluster
	doc   *plandoc.Document
	again string // the flags by which another command reads the same plan
}

// planStore has plans, and the addresses of nodes.
type planStore interface {
	plan.Store
	Addresses(ctx context.Context, nodes []string) (map[string]netip.Addr, error)
}

func newPlanCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "plan COMMAND", Short: "Show, diff, approve or roll back the stored plan of a publication"}
	show.CommandGroup(cmd)
	cmd.AddCommand(
		newPlanSubcommand("status", "Say what is published, what is held, and which nodes are behind in Slurm; exit 1 if anything is held or behind, 3 if Slurm cannot be asked", cobra.NoArgs, func(r *planRun, _ *planOptions, _ []string) error {
			held := plan.Status(r.out, r.doc, r.again)
			asked := r.pub.Slurm.URL != "" || r.pub.Slurm.Scontrol != ""
			code, err := plan.Behind(r.Context(), r.out, r.store, r.pub.Place(), asked, time.Now())
			if err != nil {
				return err
			}
			if held {
				code = show.Differs
			}
			return code.AsError()
		}),
		newPlanSubcommand("show [REVISION]", "List blocks, switches and their nodes, as published or in an earlier revision", cobra.MaximumNArgs(1), showPlan),
		newPlanSubcommand("diff [FROM [TO]]", "Say which nodes would move if what is held were published, and why; or compare revisions; exit 1 if anything differs", cobra.MaximumNArgs(2),
			func(r *planRun, _ *planOptions, args []string) error {
				differs, err := plan.Diff(r.out, r.doc, args)
				if err == nil && differs {
					return show.Differs
				}
				return err
			}),
		newPlanSubcommand("history", "List the revisions that are kept: when, by whom, and why", cobra.NoArgs, func(r *planRun, _ *planOptions, _ []string) error {
			plan.History(r.out, r.doc)
			return nil
		}),
		newPlanSubcommand("approve DIGEST", "Let the publisher publish what is held, if its digest is that one", cobra.ExactArgs(1), func(r *planRun, o *planOptions, args []string) error {
			return r.asked(plan.Approve(r.Context(), r.store, r.doc, r.pub.Place(), args[0], o.by))
		}),
		newPlanSubcommand("rollback REVISION", "Let the publisher go back to an earlier revision; after that every change waits for an approval", cobra.ExactArgs(1),
			func(r *planRun, o *planOptions, args []string) error {
				return r.asked(plan.RollBack(r.Context(), r.store, r.doc, r.pub.Place(), args[0], o.by))
			}))
	return cmd
}

// asked says how to see what becomes of it.
func (r *planRun) asked(err error) error {
	if err == nil {
		fmt.Fprintf(r.out, "asked the publisher: quoin plan status%s says what it did\n", r.again)
	}
	return err
}

func showPlan(r *planRun, o *planOptions, args []string) error {
	revision := &r.doc.Current
	if len(args) > 0 {
		var err error
		if revision, err = plan.Find(r.doc, args[0]); err != nil {
			return err
		}
	}
	if o.output == "json" {
		return json.NewEncoder(r.out).Encode(revision)
	}
	plan.Show(r.out, revision)
	return nil
}

// newPlanSubcommand returns a command that works with the plan of one publication.
func newPlanSubcommand(use, short string, args cobra.PositionalArgs, do func(*planRun, *planOptions, []string) error) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{Use: use, Short: short, Args: args}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := o.open(cmd)
		if err != nil {
			return err
		}
		return do(r, &o, args)
	}
	o.addFlags(cmd)
	o.sourceFlags(cmd)
	switch cmd.Name() {
	case "show":
		outputFlag(cmd, &o.output, "table", "json")
	case "nodes-config":
		cmd.Flags().StringVar(&o.clique, "clique", "", "the `clique`, as quoin discover prints it, or the name of its block")
		_ = cmd.MarkFlagRequired("clique") // fails only if there is no such flag
	case "approve", "rollback":
		cmd.Flags().StringVar(&o.by, "by", os.Getenv("USER"), "`name` of the revision's author")
		cmd.Flags().Lookup("by").DefValue = "$USER"
	}
	return cmd
}

// sourceFlags adds the flags that say where the plan is.
func (o *planOptions) sourceFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.publication, "publication", "", "`name` of the publication, if there are several")
	o.keyFlag(cmd, "store", "publisher.store", "the publisher works in this `directory` instead of Kubernetes")
	o.keyFlag(cmd, "kubeconfig", "publisher.kubeconfig", "`file` that says how to reach the API server; default: as a Pod")
}

// open reads the plan.
func (o *planOptions) open(cmd *cobra.Command) (*planRun, error) {
	conf, err := o.load()
	if err != nil {
		return nil, err
	}
	r := &planRun{Command: cmd, out: cmd.OutOrStdout(), store: dir.New(conf.Publisher.Store)}
	if r.pub, err = o.cluster(o.publication); err != nil {
		return nil, err
	}
	place := "directory " + conf.Publisher.Store
	if conf.Publisher.Store == "" {
		place = "namespace " + conf.Publisher.Namespace
		_, client, err := kubeClient(conf.Publisher.Kubeconfig, "quoin-plan", 0)
		if err != nil {
			return nil, err
		}
		r.store = kube.Plans{Client: client, Namespace: conf.Publisher.Namespace}
	} else if _, err := os.Stat(conf.Publisher.Store + "/"); err != nil {
		return nil, fmt.Errorf("read plan: %w; want the directory that quoin publisher --store works in", err)
	}
	r.again = config.Flag("--publication", r.pub.Name) + config.Given(o.path, o.given)
	r.doc, err = plan.Load(cmd.Context(), r.store, r.pub.Name, place)
	return r, err
}
