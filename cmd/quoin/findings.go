package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/topology"
)

// finding is what a command says of nodes, of a line of a file, or of another subject.
type finding struct {
	Nodes []string `json:"nodes,omitempty"`
	remark
}

// remark is what may be said of several nodes.
type remark struct {
	Subject  string `json:"subject,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Severity string `json:"severity,omitempty"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	Advice   string `json:"advice,omitempty"`
}

// findingsOf returns what lint says.
func findingsOf(all []lint.Finding) []finding {
	out := make([]finding, len(all))
	for i, f := range all {
		severity := "warning"
		if f.Fatal {
			severity = "fatal"
		}
		out[i].remark = remark{File: f.File, Line: f.Line, Severity: severity, Reason: f.Rule, Message: f.Message, Advice: f.Advice}
	}
	return out
}

// problemsOf returns problems of nodes.
func problemsOf(all []topology.Problem) []finding {
	out := make([]finding, len(all))
	for i, p := range all {
		out[i].remark = remark{Reason: p.Reason, Message: p.Message}
		if p.Node != "" {
			out[i].Nodes = []string{p.Node}
		}
	}
	return out
}

// group joins findings of nodes that differ in their nodes only, because a site may have
// thousands of nodes. The joined finding takes the place of the first. Nodes stand once,
// in Slurm's order.
func group(all []finding) []finding {
	type key struct {
		remark
		nodes bool
	}
	out := []finding{} // which JSON shows as a list
	at := map[key]int{}
	for _, f := range all {
		k := key{f.remark, len(f.Nodes) > 0}
		i, known := at[k]
		if !known || !k.nodes {
			i = len(out)
			at[k] = i
			out = append(out, finding{remark: f.remark})
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

// printFindings prints findings in groups. If the nodes of one reason have too many
// different messages, they share a line with the first one.
func printFindings(w io.Writer, prefix string, all []finding) {
	all = group(all)
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
func (f *finding) kind() string {
	return fmt.Sprintf("%s/%s/%t", f.Severity, f.Reason, len(f.Nodes) > 0)
}

func (f *finding) print(w io.Writer, prefix string) {
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

// printJSON prints a document.
func printJSON(w io.Writer, document any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// result is the document of quoin check.
type result struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Differs is what the exit status 1 says.
	Differs  bool      `json:"differs"`
	Summary  []string  `json:"summary"`
	Findings []finding `json:"findings"`
}

// add joins the result of one comparison with those before it.
func (r *result) add(one *result) {
	r.Differs = r.Differs || one.Differs
	r.Summary = append(r.Summary, one.Summary...)
	r.Findings = append(r.Findings, one.Findings...)
}

// print prints findings and then the summary.
func (r *result) print(w io.Writer, output string) error {
	if output == outputJSON {
		r.APIVersion, r.Kind, r.Findings = topology.APIVersion, "CheckResult", group(r.Findings)
		return printJSON(w, r)
	}
	printFindings(w, "", r.Findings)
	fmt.Fprintln(w, strings.Join(r.Summary, "\n"))
	return nil
}
