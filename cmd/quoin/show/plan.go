package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// Stands prints what waits for a time, and what Slurm has of the files by its last answer to the publisher. PlanStatus
// says the rest. Stands returns the exit code. set is what is published, or nil. asked is true if the publisher asks
// Slurm at all.
func Stands(w io.Writer, set *plandoc.Published, asked bool, now time.Time) ExitCode {
	if set == nil {
		return Fine
	}
	code, answered := Fine, false
	for _, f := range set.Findings(now) {
		message := strings.ReplaceAll(f.Message, "\n", "\n  ")
		switch {
		case f.Thing == plandoc.AboutWaits:
			fmt.Fprintf(w, "waits: %s\n", message)
			continue
		case f.Thing != plandoc.AboutSlurm:
			continue
		case f.Severity == topology.Fatal:
			fmt.Fprintf(w, "pending in Slurm, by the first stage that differs (planned, published, loaded, registered):\n  %s\n", message)
		case f.Severity == topology.Unknown:
			fmt.Fprintf(w, "in Slurm: not known: %s\n", message)
		default:
			fmt.Fprintf(w, "in Slurm: %s\n", message)
		}
		code, answered = Code([]topology.Finding{f}), true
	}
	if asked && !answered {
		fmt.Fprintln(w, "in Slurm: not known: Slurm has not answered the publisher yet")
		return NotKnown
	}
	return code
}

const timeForm = "2006-01-02 15:04:05Z"

// PlanStatus says what is published and what is held, and how old both are. It reports whether
// anything is held. The commands that it advises end with the flags.
func PlanStatus(w io.Writer, d *plandoc.Document, flags string, now time.Time) (held bool) {
	switch r := &d.Current; {
	case r.Number == 0 && len(d.Held) == 0:
		fmt.Fprintf(w, "publication %s: nothing is published yet; the publisher's log says what the first publication waits for\n", d.Publication)
	case r.Number == 0:
		fmt.Fprintf(w, "publication %s: nothing is published\n", d.Publication)
	default:
		fmt.Fprintf(w, "publication %s: revision %d of %s, by %s, in %s\n", d.Publication, r.Number, aged(r.Time, now), r.Author, d.Place)
		fmt.Fprintf(w, "  %s; digest %s\n", sums(&r.Plan), r.Digest)
		Partitions(w, "  ", slurmconf.PartitionLines(r.Plan.Topologies))
		if len(d.History) > 0 {
			if c := plandoc.Diff(&d.History[0].Plan, &r.Plan); len(c.Fewer) > 0 {
				fmt.Fprintf(w, "  %s\n", plandoc.MustFollow(c.Fewer))
			}
		}
	}
	if d.RolledBack > 0 {
		fmt.Fprintf(w, "rolled back to revision %d: every change waits for an approval\n", d.RolledBack)
	}
	files := slices.ContainsFunc(d.Held, func(h plandoc.Held) bool { return !h.Alone })
	for i := range d.Held {
		h := &d.Held[i]
		fmt.Fprintf(w, "held since %s: %s: %s\n", aged(h.Since, now), h.Reason, h.Message)
		switch {
		case !files:
			fmt.Fprintln(w, "  all else is published")
		case h.Alone:
			fmt.Fprintln(w, "  it cannot be published before the files above")
		}
		if h.Waits {
			fmt.Fprintf(w, "  to publish it:     quoin plan approve %s%s\n", h.Digest, flags)
		}
		fmt.Fprintf(w, "  it ends:           %s\n", h.Ends())
	}
	if d.Wanted != nil {
		fmt.Fprintf(w, "if nothing was held:\n  what would change: quoin plan diff%s\n", flags)
		Partitions(w, "  ", slurmconf.PartitionLines(d.Wanted.Topologies))
	}
	return len(d.Held) > 0
}

// NotHeld says that nothing is held under the digest, and what is held now.
func NotHeld(w io.Writer, d *plandoc.Document, digest, flags string) {
	if digest != "" && digest == d.Current.Digest {
		fmt.Fprintf(w, "digest %q is published already: revision %d, by %s\n", digest, d.Current.Number, d.Current.Author)
		return
	}
	fmt.Fprintf(w, "digest %q is not held", digest)
	if len(d.Held) == 0 {
		fmt.Fprintln(w, ": nothing is held")
		return
	}
	fmt.Fprintln(w, " now. Look at what is held: quoin plan diff"+flags)
	for i := range d.Held {
		if h := &d.Held[i]; h.Waits {
			fmt.Fprintf(w, "  %s: %s: %s\n", h.Digest, h.Reason, h.Message)
		} else {
			fmt.Fprintf(w, "  cannot be approved: %s: %s\n", h.Reason, h.Message)
		}
	}
}

// aged says when something was, and how long ago.
func aged(t, now time.Time) string {
	if t.IsZero() {
		return when(t)
	}
	return when(t) + " (" + slurmctld.Since(t, now) + ")"
}

func when(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format(timeForm)
}

// Partitions prints the lines of slurm.conf that topologies need.
func Partitions(w io.Writer, prefix string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(w, "%sfor slurm.conf: %s\n", prefix, line)
	}
}

// sums counts what a plan has.
func sums(p *plandoc.Plan) string {
	var parts []string
	for i := range p.Topologies {
		t := &p.Topologies[i]
		switch t.Kind {
		case topology.KindBlock:
			parts = append(parts, fmt.Sprintf("%s: %d blocks, sizes %v", t.Name, len(t.Blocks), t.Sizes))
		case topology.KindTree:
			part := fmt.Sprintf("%s: %d switches", t.Name, len(t.Switches))
			if t.Source != "" {
				part += " by " + t.Source
			}
			parts = append(parts, part)
		default:
			parts = append(parts, t.Name)
		}
	}
	placed := len(p.Places())
	if placed == 0 { // gres.conf, and perhaps a flat topology
		if len(p.Topologies) == 0 {
			parts = append(parts, "no topology")
		}
		byNode := gres.ByNode(p.Devices, nil)
		parts = append(parts, fmt.Sprintf("no node has a place; nodes with GPUs in gres.conf: %d", len(byNode)))
		return strings.Join(parts, "; ")
	}
	nodes := fmt.Sprintf("%d nodes", placed)
	if p.ByAnnotation {
		nodes += ", placed by annotation"
	}
	return strings.Join(append(parts, nodes), "; ")
}

// Revision lists the blocks and switches of a revision, the nodes that are in none, and the keys
// of the configuration that the plan was made by.
func Revision(w io.Writer, r *plandoc.Revision) {
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
	Table(w, []string{"TOPOLOGY", "BLOCK OR SWITCH", "NODES", "NAMES"}, rows)
	places := r.Plan.Places()
	var nowhere []topology.Finding
	for i := range r.Plan.Nodes {
		n := &r.Plan.Nodes[i]
		if _, placed := places[n.SlurmName]; !placed {
			nowhere = append(nowhere, topology.Finding{Subject: topology.Subject{Node: n.SlurmName}, Reason: n.Reason, Message: n.Message})
		}
	}
	Print(w, "without a place: ", nowhere)
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

// PlanDiff says what differs between two plans. It reports whether anything does.
func PlanDiff(w io.Writer, from, to *plandoc.Plan) (differs bool) {
	c := plandoc.Diff(from, to)
	for _, moves := range c.Sentences(hostlist.Compress) {
		fmt.Fprintln(w, moves)
	}
	for _, unit := range c.Units {
		fmt.Fprintln(w, unit)
	}
	if len(c.Devices) > 0 {
		fmt.Fprintf(w, "%s differ: %s\n", c.OfDevices(), hostlist.Compress(c.Devices))
	}
	return !c.None()
}

// historyWidth is how many columns a line of the history has. leastWhy is how many of them the reason has: an
// author with a very long name makes longer lines.
const historyWidth, leastWhy = 100, 30

// History lists the revisions, the newest first.
func History(w io.Writer, d *plandoc.Document) {
	all := slices.Concat([]plandoc.Revision{d.Current}, d.History)
	author := 0
	for i := range all {
		author = max(author, utf8.RuneCountInString(all[i].Author))
	}
	var rows [][]string
	for _, r := range all {
		if r.Number > 0 {
			why := hostlist.Wrap(r.Why, max(historyWidth-len("REVISION  ")-len(timeForm)-2-max(author, len("AUTHOR"))-2, leastWhy))
			rows = append(rows, []string{strconv.Itoa(r.Number), when(r.Time), r.Author, why[0]})
			for _, line := range why[1:] {
				rows = append(rows, []string{" ", " ", " ", line})
			}
		}
	}
	Table(w, []string{"REVISION", "TIME", "AUTHOR", "WHY"}, rows)
}
