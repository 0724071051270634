package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
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

// planStore has plans, takes what people ask for, and knows the addresses of nodes.
type planStore interface {
	LoadPlan(ctx context.Context, publication string) (*plandoc.Document, error)
	// Load returns what is published, or nil if nothing is.
	Load(ctx context.Context, place plandoc.Location) (*plandoc.Published, error)
	// Ask adds annotations to the publication.
	Ask(ctx context.Context, place plandoc.Location, annotations map[string]string) error
	Addresses(ctx context.Context, nodes []string) (map[string]netip.Addr, error)
}

func newPlanCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "plan COMMAND", Short: "Show, diff, approve or roll back the stored plan of a publication"}
	show.CommandGroup(cmd)
	cmd.AddCommand(
		newPlanSubcommand("status", "Say what is published, what is held, and which nodes are behind in Slurm; exit 1 if anything is held or behind, 3 if Slurm cannot be asked", cobra.NoArgs, func(r *planRun, _ *planOptions, _ []string) error {
			return r.status(time.Now())
		}),
		newPlanSubcommand("show [REVISION]", "List blocks, switches and their nodes, as published or in an earlier revision", cobra.MaximumNArgs(1), showPlan),
		newPlanSubcommand("diff [FROM [TO]]", "Say which nodes would move if what is held were published, and why; or compare revisions; exit 1 if anything differs", cobra.MaximumNArgs(2),
			func(r *planRun, _ *planOptions, args []string) error {
				from, to, err := compared(r.doc, args)
				if err == nil && show.PlanDiff(r.out, from, to) {
					return show.Differs
				}
				return err
			}),
		newPlanSubcommand("history", "List the revisions that are kept: when, by whom, and why", cobra.NoArgs, func(r *planRun, _ *planOptions, _ []string) error {
			show.History(r.out, r.doc)
			return nil
		}),
		newPlanSubcommand("approve DIGEST", "Let the publisher publish the change that is held under this digest", cobra.ExactArgs(1), func(r *planRun, o *planOptions, args []string) error {
			return r.asked(r.approve(args[0], o.by))
		}),
		newPlanSubcommand("rollback REVISION", "Let the publisher go back to an earlier revision; after that every change waits for an approval", cobra.ExactArgs(1),
			func(r *planRun, o *planOptions, args []string) error {
				return r.asked(r.rollBack(args[0], o.by))
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

// status says what is published, what is held, and which nodes are behind in Slurm.
func (r *planRun) status(now time.Time) error {
	held := show.PlanStatus(r.out, r.doc, r.again)
	set, err := r.store.Load(r.Context(), r.pub.Place())
	if err != nil {
		return err
	}
	code := show.Behind(r.out, set, r.pub.Slurm.URL != "" || r.pub.Slurm.Scontrol != "", now)
	if held {
		code = show.Differs
	}
	return code.AsError()
}

// errNothing is returned if there is nothing to compare with.
var errNothing = errors.New("nothing is held, and no revision is named: want quoin plan diff FROM [TO], revisions of quoin plan history")

// compared returns the plans that quoin plan diff compares: two revisions, one and what is
// published, or what is published and what is held.
func compared(d *plandoc.Document, args []string) (from, to *topology.Plan, err error) {
	from, to = &d.Current.Plan, &d.Current.Plan
	switch {
	case len(args) > 0:
		r, err := findRevision(d, args[0])
		if err != nil {
			return nil, nil, err
		}
		from = &r.Plan
		if len(args) > 1 {
			if r, err = findRevision(d, args[1]); err != nil {
				return nil, nil, err
			}
			to = &r.Plan
		}
	case d.Wanted != nil:
		to = d.Wanted
	default:
		return nil, nil, errNothing
	}
	return from, to, nil
}

// findRevision returns the revision that a number names.
func findRevision(d *plandoc.Document, text string) (*plandoc.Revision, error) {
	number, err := strconv.Atoi(text)
	if r := d.Find(number); err == nil && r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("revision %q: want one that is kept, see quoin plan history", text)
}

// approve asks the publisher to publish what is held, if the digest is that of one of the holds.
func (r *planRun) approve(digest, by string) error {
	held := r.doc.Held
	if len(held) == 0 {
		return errors.New("nothing is held")
	}
	if at := slices.IndexFunc(held, func(h plandoc.Held) bool { return h.Digest == digest }); at >= 0 {
		held = held[at : at+1]
	}
	var waiting []string
	for i := range held {
		if held[i].Waits {
			waiting = append(waiting, strconv.Quote(held[i].Digest))
		}
	}
	switch {
	case len(waiting) == 0:
		return fmt.Errorf("%s cannot be approved: %s", held[0].Reason, held[0].Message)
	case waiting[0] != strconv.Quote(digest):
		return fmt.Errorf("digest %q: %s is held now; look at it with quoin plan diff", digest, strings.Join(waiting, " or "))
	}
	return r.store.Ask(r.Context(), r.pub.Place(), map[string]string{plandoc.AnnotationApprove: digest, plandoc.AnnotationBy: by})
}

// rollBack asks the publisher to go back to a revision.
func (r *planRun) rollBack(number, by string) error {
	revision, err := findRevision(r.doc, number)
	if err != nil {
		return err
	}
	if revision == &r.doc.Current {
		return fmt.Errorf("revision %d is the published one: want an earlier one, see quoin plan history", revision.Number)
	}
	return r.store.Ask(r.Context(), r.pub.Place(), map[string]string{plandoc.AnnotationRollback: strconv.Itoa(revision.Number), plandoc.AnnotationBy: by})
}

func showPlan(r *planRun, o *planOptions, args []string) error {
	revision := &r.doc.Current
	if len(args) > 0 {
		var err error
		if revision, err = findRevision(r.doc, args[0]); err != nil {
			return err
		}
	}
	if o.output == "json" {
		return json.NewEncoder(r.out).Encode(revision)
	}
	show.Revision(r.out, revision)
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
	conf, pub, err := o.cluster(o.publication)
	if err != nil {
		return nil, err
	}
	r := &planRun{Command: cmd, out: cmd.OutOrStdout(), store: dir.New(conf.Publisher.Store), pub: pub}
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
	r.doc, err = loadPlan(cmd.Context(), r.store, r.pub.Name, place)
	return r, err
}

// loadPlan returns the plan of the publication. A missing plan is an error, which names the
// place of the store.
func loadPlan(ctx context.Context, store planStore, publication, place string) (*plandoc.Document, error) {
	d, err := store.LoadPlan(ctx, publication)
	if err == nil && d == nil {
		err = fmt.Errorf("publication %q has no stored plan in %s: start quoin publisher there, or say where it runs by --store DIR or --set publisher.namespace=NAME", publication, place)
	}
	return d, err
}
