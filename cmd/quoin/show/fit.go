package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// Fit is the document of quoin fit: whether a job fits, and how many segments fit. Package fit has
// the rules.
type Fit struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Topology   string `json:"topology"`
	fit.Answer
	// Blocks are what the job would get. In a tree it is the switch above all its nodes.
	Blocks []share `json:"blocks,omitempty"`
	// Needs are the answer's, with the states of the nodes.
	Needs []need `json:"needs,omitempty"`
	// Segments says how many segments of each size fit.
	Segments []fit.Row `json:"segments,omitempty"`
	// Nodes counts the nodes of the topology by state. Free ones that are powered down count as
	// powered_down. Said is who said the states, or empty if nobody did.
	Nodes map[string]int `json:"nodes"`
	Said  string         `json:"said,omitempty"`
	// Asked is when Slurm was asked for them, if it was.
	Asked time.Time `json:"asked,omitzero"`
	// Reservations have nodes of the topology, now or later.
	Reservations []reservation `json:"reservations,omitempty"`
	// Findings say what could not be judged.
	Findings []Group `json:"findings"`

	found []topology.Finding
	// unit is BLOCK, or SWITCH in a tree.
	unit string
}

const reasonFitUnknown = "FitUnknown"

// statesUnknown is the finding if no source says which nodes are free.
var statesUnknown = topology.Finding{Severity: topology.Unknown, Reason: reasonFitUnknown, Message: "nobody said which nodes are free",
	Remedy: fit.AskStates}

// Code returns the exit code of the answer.
func (a *Fit) Code() ExitCode {
	if a.Verdict == fit.NotNow || a.Verdict == fit.Never {
		return Differs
	}
	return Code(a.found)
}

// reservation is a reservation of nodes of the topology. For says whom it is for: users, and
// accounts.
type reservation struct {
	Name  string    `json:"name"`
	Count int       `json:"count"`
	Nodes string    `json:"nodes"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end,omitzero"`
	For   string    `json:"for,omitempty"`
}

// share is what a job would get of a block. Block is empty for nodes in no block.
type share struct {
	Block string `json:"block,omitempty"`
	Nodes int    `json:"nodes"`
	// Segments is how many segments have nodes of the block.
	Segments int `json:"segments,omitempty"`
}

// need says how many nodes of a block are missing, and which nodes are not free.
type need struct {
	fit.Need
	// States are how these nodes are, with a host list of each.
	States map[string]string `json:"states"`
}

// FitSource says where the states of the nodes come from.
type FitSource struct {
	// Said is who said the states, or empty if nobody did. Asked is when Slurm was asked, or zero.
	Said  string
	Asked time.Time
	// Reservations may begin later. There are none if Slurm was not asked.
	Reservations []slurmctld.Reservation
	// Unread are reports that could not be read.
	Unread []topology.Finding
}

// NewFit answers for a job in a topology. The site has the topology's nodes and their states.
// Without nodes NewFit only counts the segments.
func NewFit(t *topology.Topology, site *fit.Site, source *FitSource, j *fit.Job) (*Fit, error) {
	a := &Fit{APIVersion: topology.APIVersion, Kind: "FitResult", Topology: t.Name, Nodes: countStates(site), Said: source.Said, Asked: source.Asked}
	var err error
	if a.Reservations, err = reserved(site, source.Reservations); err != nil {
		return nil, err
	}
	a.unit = "SWITCH"
	if site.HasBlocks() {
		a.unit = "BLOCK"
		a.Segments = site.Free(fit.Sizes...)
	}
	unknown, unsaid := topology.Finding{Severity: topology.Unknown, Reason: reasonFitUnknown}, site.Where(func(state fit.State) bool { return state.Use == fit.Unsaid })
	if j.Nodes > 0 {
		a.Answer = site.Answer(j)
		a.Blocks, a.Needs = shares(site, &a.Place), needs(site, a.Answer.Needs)
		unknown.Message, unknown.Remedy = a.Why, a.Remedy
	}
	switch {
	case a.Verdict == fit.Unknown:
		a.found = append(a.found, unknown)
	case a.Said == "":
		a.found = append(a.found, statesUnknown)
	case j.Nodes == 0 && len(a.Segments) > 0 && len(unsaid) > 0:
		unknown.Message, unknown.Remedy = "the states of these nodes are not known, so they do not count as free: "+hostlist.Shorten(hostlist.Compress(unsaid)), fit.AskStates
		a.found = append(a.found, unknown)
	}
	a.found = append(a.found, source.Unread...)
	a.Findings = Groups(a.found)
	return a, nil
}

// reserved are the reservations that have nodes of the site.
func reserved(site *fit.Site, all []slurmctld.Reservation) ([]reservation, error) {
	here := map[string]bool{}
	for _, node := range site.Nodes() {
		here[node] = true
	}
	var out []reservation
	for i := range all {
		r := &all[i]
		var nodes []string
		err := hostlist.Walk(r.Nodes, func(node []byte) {
			if here[string(node)] {
				nodes = append(nodes, string(node))
			}
		})
		if err != nil {
			return nil, fmt.Errorf("reservation %s: %w", r.Name, err)
		}
		if len(nodes) > 0 {
			whom := strings.Trim(strings.ReplaceAll(r.Users+","+r.Accounts, ",,", ","), ",")
			out = append(out, reservation{r.Name, len(nodes), hostlist.Compress(nodes), r.Start, r.End, whom})
		}
	}
	return out, nil
}

// countStates counts the nodes by state.
func countStates(site *fit.Site) map[string]int {
	counts := map[string]int{}
	for _, node := range site.Nodes() {
		counts[stateOf(site, node)]++
	}
	return counts
}

// poweredDown is the state of a free node that Slurm has powered down.
const poweredDown = "powered_down"

// stateOf is how a node is, in words.
func stateOf(site *fit.Site, node string) string {
	state := site.State(node)
	if state.Off {
		return poweredDown
	}
	return cmp.Or(state.Why, "free")
}

func shares(site *fit.Site, place *fit.Place) []share {
	by := map[int]*share{}
	for _, segment := range place.Segments {
		for _, taken := range segment {
			if by[taken.Block] == nil {
				by[taken.Block] = &share{Block: site.Blocks[taken.Block].Name}
			}
			by[taken.Block].Nodes += taken.Nodes
			by[taken.Block].Segments++
		}
	}
	var out []share
	for _, i := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[i])
	}
	if place.Apart > 0 {
		out = append(out, share{Nodes: place.Apart})
	}
	return out
}

func needs(site *fit.Site, all []fit.Need) []need {
	var out []need
	for _, n := range all {
		by := map[string][]string{}
		for _, node := range n.Nodes {
			why := stateOf(site, node)
			by[why] = append(by[why], node)
		}
		one := need{n, map[string]string{}}
		for why, nodes := range by {
			one.States[why] = hostlist.Compress(nodes)
		}
		out = append(out, one)
	}
	return out
}

// none stands for nodes in no block, or below no switch.
func (a *Fit) none() string { return "(no " + strings.ToLower(a.unit) + ")" }

// Print prints the answer for people. now says how old it is.
func (a *Fit) Print(w io.Writer, now time.Time) {
	switch a.Verdict {
	case fit.Now:
		fmt.Fprintln(w, "now: the job fits, for example in")
		a.printBlocks(w)
	case fit.Unknown:
		Print(w, "", a.found) // the first says what is missing for the answer
		if len(a.Blocks) > 0 {
			fmt.Fprintln(w, "if it fits, the job gets for example")
			a.printBlocks(w)
		}
	case fit.NotNow:
		a.printNeeds(w)
		fmt.Fprintln(w, "then it gets")
		a.printBlocks(w)
	case fit.Never:
		fmt.Fprintln(w, "never: "+a.Why)
	}
	if a.Verdict != "" {
		fmt.Fprintln(w)
	}
	if len(a.Segments) > 0 {
		var rows [][]string
		for _, s := range a.Segments {
			now := "not known"
			if a.Said != "" {
				now = strconv.Itoa(s.Now)
			}
			rows = append(rows, []string{strconv.Itoa(s.Size), now, strconv.Itoa(s.All)})
		}
		Table(w, []string{"SEGMENT", "FIT NOW", "IF ALL NODES WERE FREE AND AVAILABLE"}, rows)
		fmt.Fprintln(w)
	}
	a.printStates(w, now)
	a.printReservations(w)
}

// printNeeds prints why the job does not fit now: the nodes that are not free, or Slurm's wait.
func (a *Fit) printNeeds(w io.Writer) {
	if a.Why != "" {
		fmt.Fprintln(w, "not now: "+a.Why)
		return
	}
	fmt.Fprintln(w, "not now: the job fits if more nodes are free and available, for example")
	var rows [][]string
	for _, n := range a.Needs {
		first := []string{cmp.Or(n.Block, a.none()), strconv.Itoa(n.Count)}
		for _, why := range slices.Sorted(maps.Keys(n.States)) {
			rows = append(rows, append(first, why, hostlist.Shorten(n.States[why])))
			first = []string{"", ""}
		}
	}
	Table(w, []string{a.unit, "NODES", "STATE", "ANY OF"}, rows)
}

func (a *Fit) printBlocks(w io.Writer) {
	var rows [][]string
	for _, b := range a.Blocks {
		segments := ""
		if b.Segments > 0 {
			segments = strconv.Itoa(b.Segments)
		}
		rows = append(rows, []string{cmp.Or(b.Block, a.none()), strconv.Itoa(b.Nodes), segments})
	}
	Table(w, []string{a.unit, "NODES", "SEGMENTS"}, rows)
}

// printReservations lists the reservations of now and of later.
func (a *Fit) printReservations(w io.Writer) {
	if len(a.Reservations) == 0 {
		return
	}
	const minute = "2006-01-02 15:04"
	var rows [][]string
	for _, r := range a.Reservations {
		until := ""
		if !r.End.IsZero() {
			until = r.End.Local().Format(minute)
		}
		rows = append(rows, []string{r.Name, r.Start.Local().Format(minute), until, strconv.Itoa(r.Count), hostlist.Shorten(r.Nodes), r.For})
	}
	fmt.Fprintln(w, "\nSlurm starts no other job on these nodes that may still run when the reservation begins:")
	Table(w, []string{"RESERVATION", "FROM", "TO", "NODES", "NAMES", "FOR"}, rows)
}

func (a *Fit) printStates(w io.Writer, now time.Time) {
	if a.Verdict != fit.Unknown {
		Print(w, "", a.found)
	}
	if a.Said == "" {
		return
	}
	var parts []string
	total := 0
	for _, state := range slices.Sorted(maps.Keys(a.Nodes)) {
		total += a.Nodes[state]
		if state != "free" && state != poweredDown {
			parts = append(parts, fmt.Sprintf("%d %s", a.Nodes[state], state))
		}
	}
	fmt.Fprintf(w, "%d of %d nodes are free according to %s", a.Nodes["free"]+a.Nodes[poweredDown], total, a.Said)
	if !a.Asked.IsZero() {
		fmt.Fprintf(w, " (%s)", slurmctld.Ago(a.Asked, now))
	}
	if off := a.Nodes[poweredDown]; off > 0 {
		fmt.Fprintf(w, ", %d of them powered down", off)
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, ": %s", strings.Join(parts, ", "))
	}
	fmt.Fprintln(w)
}
