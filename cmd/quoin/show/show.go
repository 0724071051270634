// Package show is how commands print what they have found, as text or as JSON, the same for all
// commands: findings, where Slurm or the IMEX domain differs from what is wanted, stored plans,
// whether a job fits, machines, tables, and errors of flags and arguments. Nodes with the same words
// share a line. The package reads no files and asks nobody. It links no Kubernetes, because the demo
// prints by it, too.
package show

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// Group is a finding as JSON shows it: about several nodes, a line of a file, or another thing.
type Group struct {
	Severity topology.Severity `json:"severity"`
	Reason   string            `json:"reason,omitempty"`
	Nodes    []string          `json:"nodes,omitempty"`
	File     string            `json:"file,omitempty"`
	Line     int               `json:"line,omitempty"`
	Thing    string            `json:"thing,omitempty"`
	Message  string            `json:"message"`
	Remedy   string            `json:"remedy,omitempty"`
}

// Groups joins findings that differ in their nodes only, because a site may have thousands of
// nodes. The joined finding takes the place of the first. Nodes stand once, in Slurm's order.
func Groups(all []topology.Finding) []Group {
	type key struct {
		topology.Finding
		node bool
	}
	out := []Group{} // which JSON shows as a list
	at := map[key]int{}
	for _, f := range all {
		node := f.Node
		f.Node = ""
		k := key{f, node != ""}
		i, known := at[k]
		if !known || !k.node {
			i = len(out)
			at[k] = i
			out = append(out, Group{Severity: f.Severity, Reason: f.Reason, File: f.File, Line: f.Line, Thing: f.Thing, Message: f.Message, Remedy: f.Remedy})
		}
		if k.node {
			out[i].Nodes = append(out[i].Nodes, node)
		}
	}
	for i := range out {
		slices.SortFunc(out[i].Nodes, hostlist.Compare)
		out[i].Nodes = slices.Compact(out[i].Nodes)
	}
	return out
}

// maxLines bounds the lines about one reason that people get. JSON has all.
const maxLines = 8

// Print prints findings in groups. If the nodes of one reason have too many
// different messages, they share a line with the first one.
func Print(w io.Writer, prefix string, findings []topology.Finding) {
	all := Groups(findings)
	byReason := map[kind][]int{}
	for i := range all {
		byReason[all[i].kind()] = append(byReason[all[i].kind()], i)
	}
	for i := range all {
		g := &all[i]
		same := byReason[g.kind()]
		switch at := slices.Index(same, i); {
		case len(same) <= maxLines:
			g.print(w, prefix)
		case len(g.Nodes) > 0 && at == 0:
			joined := *g
			joined.Nodes = nil
			for _, k := range same {
				joined.Nodes = append(joined.Nodes, all[k].Nodes...)
			}
			joined.Message = fmt.Sprintf("%s: %s, and more of the kind", hostlist.Shorten(hostlist.Compress(g.Nodes)), g.Message)
			joined.print(w, prefix)
		case len(g.Nodes) > 0:
		case at < maxLines:
			g.print(w, prefix)
		case at == maxLines:
			fmt.Fprintf(w, "%sand %d more %s\n", prefix, len(same)-maxLines, g.Reason)
		}
	}
}

// Lines are the lines that Print prints.
func Lines(findings []topology.Finding) []string {
	var out strings.Builder
	Print(&out, "", findings)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// kind tells findings apart that may share a line.
type kind struct {
	severity topology.Severity
	reason   string
	nodes    bool
}

func (g *Group) kind() kind { return kind{g.Severity, g.Reason, len(g.Nodes) > 0} }

func (g *Group) print(w io.Writer, prefix string) {
	if g.File != "" {
		f := topology.Finding{Subject: topology.Subject{File: g.File, Line: g.Line}, Severity: g.Severity, Reason: g.Reason, Message: g.Message, Remedy: g.Remedy}
		fmt.Fprintf(w, "%s%s\n", prefix, f)
		return
	}
	if g.Severity == topology.Unknown {
		prefix = "unknown: "
	}
	head := cmp.Or(g.Thing, g.Reason)
	if len(g.Nodes) > 0 {
		head = listed(g.Nodes) + ": " + g.Reason
	}
	fmt.Fprintf(w, "%s%s: %s\n", prefix, head, g.Message)
	if g.Remedy != "" {
		fmt.Fprintf(w, "  fix: %s\n", g.Remedy)
	}
}

// maxList bounds a host list that people get, in bytes.
const maxList = 4000

// listed writes names as a host list. Of names that do not fold it shows the first.
func listed(names []string) string {
	list := hostlist.Compress(names)
	if len(list) <= maxList {
		return list
	}
	shown := len(names) * maxList / len(list)
	return fmt.Sprintf("%s and %d more", hostlist.Compress(names[:shown]), len(names)-shown)
}

// JSON prints a document.
func JSON(w io.Writer, document any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}
