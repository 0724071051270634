// Package findings is what commands say of nodes, of lines of files and of other subjects: joined in
// groups, as text or as JSON.
package findings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/topology"
)

// Finding is what a command says of nodes, of a line of a file, or of another subject.
type Finding struct {
	Nodes []string `json:"nodes,omitempty"`
	Remark
}

// Remark is what may be said of several nodes.
type Remark struct {
	Subject  string `json:"subject,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Severity string `json:"severity,omitempty"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	Advice   string `json:"advice,omitempty"`
}

// OfLint returns what lint says.
func OfLint(all []lint.Finding) []Finding {
	out := make([]Finding, len(all))
	for i, f := range all {
		severity := "warning"
		if f.Fatal {
			severity = "fatal"
		}
		out[i].Remark = Remark{File: f.File, Line: f.Line, Severity: severity, Reason: f.Rule, Message: f.Message, Advice: f.Advice}
	}
	return out
}

// Of returns problems of nodes.
func Of(all []topology.Problem) []Finding {
	out := make([]Finding, len(all))
	for i, p := range all {
		out[i].Remark = Remark{Reason: p.Reason, Message: p.Message}
		if p.Node != "" {
			out[i].Nodes = []string{p.Node}
		}
	}
	return out
}

// Group joins findings of nodes that differ in their nodes only, because a site may have
// thousands of nodes. The joined finding takes the place of the first. Nodes stand once,
// in Slurm's order.
func Group(all []Finding) []Finding {
	type key struct {
		Remark
		nodes bool
	}
	out := []Finding{} // which JSON shows as a list
	at := map[key]int{}
	for _, f := range all {
		k := key{f.Remark, len(f.Nodes) > 0}
		i, known := at[k]
		if !known || !k.nodes {
			i = len(out)
			at[k] = i
			out = append(out, Finding{Remark: f.Remark})
		}
		out[i].Nodes = append(out[i].Nodes, f.Nodes...)
	}
	for i := range out {
		if names, err := hostlist.Expand(hostlist.Compress(out[i].Nodes)); err == nil {
			out[i].Nodes = names
		}
	}
	return out
}

// maxLines bounds the lines about one reason that people get. JSON has all.
const maxLines = 8

// Print prints findings in groups. If the nodes of one reason have too many
// different messages, they share a line with the first one.
func Print(w io.Writer, prefix string, all []Finding) {
	all = Group(all)
	byReason := map[string][]int{}
	for i := range all {
		byReason[all[i].kind()] = append(byReason[all[i].kind()], i)
	}
	for i := range all {
		f := &all[i]
		same := byReason[f.kind()]
		switch at := slices.Index(same, i); {
		case len(same) <= maxLines:
			f.print(w, prefix)
		case len(f.Nodes) > 0 && at == 0:
			joined := *f
			joined.Nodes = nil
			for _, k := range same {
				joined.Nodes = append(joined.Nodes, all[k].Nodes...)
			}
			joined.Message = fmt.Sprintf("%s: %s, and more of the kind", hostlist.Shorten(hostlist.Compress(f.Nodes)), f.Message)
			joined.print(w, prefix)
		case len(f.Nodes) > 0:
		case at < maxLines:
			f.print(w, prefix)
		case at == maxLines:
			fmt.Fprintf(w, "%sand %d more %s\n", prefix, len(same)-maxLines, f.Reason)
		}
	}
}

// kind tells findings apart that may share a line.
func (f *Finding) kind() string {
	return fmt.Sprintf("%s/%s/%t", f.Severity, f.Reason, len(f.Nodes) > 0)
}

func (f *Finding) print(w io.Writer, prefix string) {
	if f.File != "" {
		fmt.Fprintf(w, "%s%s:%d: %s: %s (%s); %s\n", prefix, f.File, f.Line, f.Severity, f.Message, f.Reason, f.Advice)
		return
	}
	head := cmp.Or(f.Subject, f.Reason)
	if len(f.Nodes) > 0 {
		head = listed(f.Nodes) + ": " + f.Reason
	}
	fmt.Fprintf(w, "%s%s: %s\n", prefix, head, f.Message)
	if f.Advice != "" {
		fmt.Fprintf(w, "  %s\n", f.Advice)
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
