package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// planRun is what a subcommand works with.
type planRun struct {
	*cobra.Command
	out   io.Writer
	store session.Store
	pub   *publication.Cluster
	doc   *plandoc.Document
	again string // the flags by which another command reads the same plan
}

func newPlanCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "plan COMMAND", Short: "Show, diff, approve or roll back the stored plan of a publication"}
	show.CommandGroup(cmd)
	var output, by string
	list := newPlanSubcommand("show [REVISION]", "List blocks, switches and their nodes, as published or in an earlier revision", cobra.MaximumNArgs(1),
		func(r *planRun, args []string) error { return r.show(output, args) })
	show.AddOutput(list, &output, "table", outputJSON)
	approve := newPlanSubcommand("approve DIGEST", "Let the publisher publish the change that is held under this digest; exit 1 if the digest is not held, or cannot be approved", cobra.ExactArgs(1),
		func(r *planRun, args []string) error { return r.asked(r.approve(args[0], by)) })
	rollback := newPlanSubcommand("rollback REVISION", "Let the publisher go back to an earlier revision; after that every change waits for an approval", cobra.ExactArgs(1),
		func(r *planRun, args []string) error { return r.asked(r.rollBack(args[0], by)) })
	for _, asks := range []*cobra.Command{approve, rollback} {
		asks.Flags().StringVar(&by, "by", os.Getenv("USER"), "`name` of the revision's author")
		asks.Flags().Lookup("by").DefValue = "$USER"
	}
	cmd.AddCommand(
		newPlanSubcommand("status", "Say what is published, what is held, and which nodes are pending in Slurm; exit 1 if anything is held or pending, 3 if Slurm cannot be asked", cobra.NoArgs,
			func(r *planRun, _ []string) error { return r.status(time.Now()) }),
		list,
		newPlanSubcommand("diff [FROM [TO]]", "Say which nodes would move if what is held were published, and why; or compare revisions; exit 1 if anything differs", cobra.MaximumNArgs(2),
			func(r *planRun, args []string) error {
				from, to, err := compared(r.doc, args)
				if err == nil && show.PlanDiff(r.out, from, to) {
					return show.Differs
				}
				return err
			}),
		newPlanSubcommand("history", "List the revisions that are kept: when, by whom, and why", cobra.NoArgs,
			func(r *planRun, _ []string) error {
				show.History(r.out, r.doc)
				return nil
			}),
		approve, rollback)
	return cmd
}

// asked says how to see what becomes of it.
func (r *planRun) asked(err error) error {
	if err == nil {
		fmt.Fprintf(r.out, "asked the publisher: quoin plan status%s says what it did\n", r.again)
	}
	return err
}

// status says what is published, what is held, and which nodes are pending in Slurm.
func (r *planRun) status(now time.Time) error {
	held := show.PlanStatus(r.out, r.doc, r.again, now)
	set, err := r.store.Load(r.Context(), r.pub.Place())
	if err != nil {
		return err
	}
	code := show.Stands(r.out, set, slurmOnce(r.pub) != nil, now)
	if held {
		code = show.Differs
	}
	return code.AsError()
}

// errNothing is returned if there is nothing to compare with.
var errNothing = errors.New("nothing is held, and no revision is named: want quoin plan diff FROM [TO], revisions of quoin plan history")

// compared returns the plans that quoin plan diff compares: two revisions, one and what is
// published, or what is published and what is held.
func compared(d *plandoc.Document, args []string) (from, to *plandoc.Plan, err error) {
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
// Otherwise it says what is held now.
func (r *planRun) approve(digest, by string) error {
	held := r.doc.Held
	if at := slices.IndexFunc(held, func(h plandoc.Held) bool { return h.Digest == digest && digest != "" }); at >= 0 {
		if !held[at].Waits {
			fmt.Fprintf(r.out, "%s cannot be approved: %s\n", held[at].Reason, held[at].Message)
			return show.Differs
		}
		return r.store.Ask(r.Context(), r.pub.Place(), map[string]string{plandoc.AnnotationApprove: digest, plandoc.AnnotationBy: by})
	}
	show.NotHeld(r.out, r.doc, digest, r.again)
	return show.Differs
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

func (r *planRun) show(output string, args []string) error {
	revision := &r.doc.Current
	if len(args) > 0 {
		var err error
		if revision, err = findRevision(r.doc, args[0]); err != nil {
			return err
		}
	}
	if output == outputJSON {
		return json.NewEncoder(r.out).Encode(revision)
	}
	show.Revision(r.out, revision)
	return nil
}

// newPlanSubcommand returns a command that works with the plan of one publication.
func newPlanSubcommand(use, short string, args cobra.PositionalArgs, do func(*planRun, []string) error) *cobra.Command {
	var flags session.Flags
	cmd := &cobra.Command{Use: use, Short: short, Args: args}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := openPlan(cmd, &flags)
		if err != nil {
			return err
		}
		return do(r, args)
	}
	flags.Add(cmd)
	flags.AddSources(cmd)
	return cmd
}

// openPlan reads the stored plan.
func openPlan(cmd *cobra.Command, flags *session.Flags) (*planRun, error) {
	s, err := flags.Open(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	pub, err := s.Publication()
	if err != nil {
		return nil, err
	}
	doc, err := s.Plan(cmd.Context(), pub.Name)
	return &planRun{Command: cmd, out: cmd.OutOrStdout(), store: s.Store, pub: pub, doc: doc, again: s.Again(pub.Name)}, err
}
