// Package plan is what quoin plan shows of a stored plan, and what it asks of the publisher.
// It writes no plan: the publisher does what the annotations of a publication ask for.
package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/topology"
)

// Store is where plans are, and where people ask for something.
type Store interface {
	LoadPlan(ctx context.Context, publication string) (*plandoc.Document, error)
	// Load returns what is published, or nil if nothing is.
	Load(ctx context.Context, place plandoc.Location) (*plandoc.Published, error)
	// Ask adds annotations to the publication.
	Ask(ctx context.Context, place plandoc.Location, annotations map[string]string) error
}

// Load returns the plan of the publication. A missing plan is an error, which names the
// place of the store.
func Load(ctx context.Context, store Store, publication, place string) (*plandoc.Document, error) {
	d, err := store.LoadPlan(ctx, publication)
	if err == nil && d == nil {
		err = fmt.Errorf("publication %q has no stored plan in %s: start quoin publisher there, or say where it runs by --store DIR or --set publisher.namespace=NAME", publication, place)
	}
	return d, err
}

// Behind says which nodes are behind in Slurm, as the publisher found when it asked Slurm, and how
// long ago that was. It returns the exit code. asked is true if the publisher asks Slurm at all.
func Behind(ctx context.Context, w io.Writer, store Store, place plandoc.Location, asked bool, now time.Time) (show.ExitCode, error) {
	set, err := store.Load(ctx, place)
	if err != nil || set == nil {
		return show.Fine, err
	}
	text, failed := strings.CutPrefix(set.Annotations[plandoc.AnnotationBehind], plandoc.CannotAsk)
	text = strings.TrimSpace(text)
	at, ago := plandoc.Asked(set.Annotations), ""
	if !at.IsZero() {
		ago = " (" + client.Ago(at, now) + "; later answers are noted only if they differ)"
	}
	switch {
	case failed && at.IsZero():
		fmt.Fprintln(w, "in Slurm: not known: "+plandoc.CannotAsk)
		return show.NotKnown, nil
	case failed:
		fmt.Fprintln(w, "in Slurm: not known: "+plandoc.CannotAsk+". Its last answer:")
		ago = " (" + client.Ago(at, now) + ")"
	case text == "" && asked && at.IsZero():
		fmt.Fprintln(w, "in Slurm: not known: Slurm has not answered the publisher yet")
		return show.NotKnown, nil
	}
	if text == "" {
		if asked {
			fmt.Fprintln(w, "in Slurm: all nodes are as published"+ago)
		}
		if failed {
			return show.NotKnown, nil
		}
		return show.Fine, nil
	}
	fmt.Fprintf(w, "behind in Slurm, by the first stage of planned, published, loaded and registered that differs%s:\n", ago)
	for line := range strings.Lines(text) {
		fmt.Fprintf(w, "  %s\n", strings.TrimSuffix(line, "\n"))
	}
	return show.Differs, nil
}

const timeForm = "2006-01-02 15:04:05Z"

// Status says what is published and what is held. It reports whether anything is held. The
// commands that it advises end with the flags.
func Status(w io.Writer, d *plandoc.Document, flags string) (held bool) {
	if r := &d.Current; r.Number == 0 {
		fmt.Fprintf(w, "publication %s: nothing is published\n", d.Publication)
	} else {
		fmt.Fprintf(w, "publication %s: revision %d of %s, by %s, in %s\n", d.Publication, r.Number, when(r.Time), r.Author, d.Place)
		fmt.Fprintf(w, "  %s; digest %s\n", sums(&r.Plan), r.Digest)
		partitions(w, &r.Plan)
	}
	if d.RolledBack > 0 {
		fmt.Fprintf(w, "rolled back to revision %d: every change waits for an approval\n", d.RolledBack)
	}
	h := d.Held
	if h == nil {
		return false
	}
	fmt.Fprintf(w, "held since %s: %s: %s\n", when(h.Since), h.Reason, h.Message)
	if h.Plan != nil {
		fmt.Fprintf(w, "  what would change: quoin plan diff%s\n", flags)
	}
	if h.Waits {
		partitions(w, h.Plan)
		fmt.Fprintf(w, "  to publish it:     quoin plan approve %s%s\n", h.Digest, flags)
	}
	return true
}

func when(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format(timeForm)
}

// partitions prints the lines of slurm.conf that the plan needs. p may be nil.
func partitions(w io.Writer, p *topology.Plan) {
	if p == nil {
		return
	}
	for _, line := range slurmconf.PartitionLines(p.Topologies) {
		fmt.Fprintf(w, "  for slurm.conf: %s\n", line)
	}
}

// sums counts what a plan has.
func sums(p *topology.Plan) string {
	var parts []string
	for i := range p.Topologies {
		t := &p.Topologies[i]
		switch t.Kind {
		case topology.KindBlock:
			parts = append(parts, fmt.Sprintf("%s: %d blocks, sizes %v", t.Name, len(t.Blocks), t.Sizes))
		case topology.KindTree:
			parts = append(parts, fmt.Sprintf("%s: %d switches", t.Name, len(t.Switches)))
		default:
			parts = append(parts, t.Name)
		}
	}
	nodes := fmt.Sprintf("%d nodes", len(p.Places()))
	if p.ByAnnotation {
		nodes += ", placed by annotation"
	}
	return strings.Join(append(parts, nodes), "; ")
}

// Show lists the blocks and switches of a revision, the nodes that are in none, and the keys
// of the configuration that the plan was made by.
func Show(w io.Writer, r *plandoc.Revision) {
	var rows [][]string
	for i := range r.Plan.Topologies {
		t := &r.Plan.Topologies[i]
		for _, b := range t.Blocks {
			rows = append(rows, []string{t.Name, b.Name, count(b.Nodes), hostlist.Compress(b.Nodes)})
		}
		for _, s := range t.Switches {
			list := hostlist.Compress(s.Nodes)
			if len(s.Children) > 0 {
				list = "switches " + hostlist.Compress(s.Children)
			}
			rows = append(rows, []string{t.Name, s.Name, count(s.Nodes), list})
		}
		if t.Kind == topology.KindFlat {
			rows = append(rows, []string{t.Name, "", "", ""})
		}
	}
	show.Table(w, []string{"TOPOLOGY", "UNIT", "NODES", "NAMES"}, rows)
	places := r.Plan.Places()
	nowhere := map[string][]string{}
	var reasons []string
	for i := range r.Plan.Nodes {
		n := &r.Plan.Nodes[i]
		if _, placed := places[n.SlurmName]; !placed {
			why := strings.TrimSuffix(n.Reason+": "+n.Message, ": ")
			if nowhere[why] == nil {
				reasons = append(reasons, why)
			}
			nowhere[why] = append(nowhere[why], n.SlurmName)
		}
	}
	slices.Sort(reasons)
	for _, why := range reasons {
		fmt.Fprintf(w, "in none: %s: %s\n", hostlist.Compress(nowhere[why]), why)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Plan.Policy)) {
		fmt.Fprintf(w, "key %s: %s\n", key, r.Plan.Policy[key])
	}
}

func count(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	return strconv.Itoa(len(nodes))
}

// errNothing is returned if there is nothing to compare with.
var errNothing = errors.New("nothing is held, and no revision is named: want quoin plan diff FROM [TO], revisions of quoin plan history")

// Diff says what differs: between two revisions, between one and what is published, or
// between what is published and what is held. It reports whether anything does.
func Diff(w io.Writer, d *plandoc.Document, args []string) (differs bool, err error) {
	from, to := &d.Current.Plan, &d.Current.Plan
	switch {
	case len(args) > 0:
		r, err := Find(d, args[0])
		if err != nil {
			return false, err
		}
		from = &r.Plan
		if len(args) > 1 {
			if r, err = Find(d, args[1]); err != nil {
				return false, err
			}
			to = &r.Plan
		}
	case d.Held != nil && d.Held.Plan != nil:
		to = d.Held.Plan
	default:
		return false, errNothing
	}
	c := plandoc.Compare(from, to)
	for i := range c.Moves {
		fmt.Fprintln(w, c.Moves[i].String())
	}
	for _, unit := range c.Units {
		fmt.Fprintln(w, unit)
	}
	if len(c.Devices) > 0 {
		fmt.Fprintf(w, "gres.conf: the lines of %d nodes differ: %s\n", len(c.Devices), hostlist.Compress(c.Devices))
	}
	return !c.None(), nil
}

// Find returns the revision that a number names.
func Find(d *plandoc.Document, text string) (*plandoc.Revision, error) {
	number, err := strconv.Atoi(text)
	if r := d.Find(number); err == nil && r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("revision %q: want one that is kept, see quoin plan history", text)
}

// History lists the revisions, the newest first.
func History(w io.Writer, d *plandoc.Document) {
	var rows [][]string
	for _, r := range slices.Concat([]plandoc.Revision{d.Current}, d.History) {
		if r.Number > 0 {
			rows = append(rows, []string{strconv.Itoa(r.Number), when(r.Time), r.Author, r.Why})
		}
	}
	show.Table(w, []string{"REVISION", "TIME", "AUTHOR", "WHY"}, rows)
}

// Approve asks the publisher to publish what is held, if the digest is that of it.
func Approve(ctx context.Context, store Store, d *plandoc.Document, place plandoc.Location, digest, by string) error {
	switch h := d.Held; {
	case h == nil:
		return errors.New("nothing is held")
	case !h.Waits:
		return fmt.Errorf("%s cannot be approved: %s", h.Reason, h.Message)
	case h.Digest != digest:
		return fmt.Errorf("digest %q: %q is held now; look at it with quoin plan diff", digest, h.Digest)
	}
	return store.Ask(ctx, place, map[string]string{plandoc.AnnotationApprove: digest, plandoc.AnnotationBy: by})
}

// RollBack asks the publisher to go back to a revision.
func RollBack(ctx context.Context, store Store, d *plandoc.Document, place plandoc.Location, revision, by string) error {
	r, err := Find(d, revision)
	if err != nil {
		return err
	}
	if r == &d.Current {
		return fmt.Errorf("revision %d is the published one: want an earlier one, see quoin plan history", r.Number)
	}
	return store.Ask(ctx, place, map[string]string{plandoc.AnnotationRollback: strconv.Itoa(r.Number), plandoc.AnnotationBy: by})
}
