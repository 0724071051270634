package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Result is what a command has found.
type Result struct {
	// Kind names the command in JSON, such as CheckResult.
	Kind string
	// Summary are the last lines for people. If something could not be judged, one more
	// follows.
	Summary  []string
	Findings []topology.Finding
}

// document is a Result as JSON.
type document struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Result     string   `json:"result"`
	Summary    []string `json:"summary"`
	Findings   []Group  `json:"findings"`
}

// Found adds findings.
func (r *Result) Found(findings ...topology.Finding) { r.Findings = append(r.Findings, findings...) }

// Print prints findings and then the summary. It returns the exit code.
func (r *Result) Print(w io.Writer) ExitCode {
	Print(w, "", r.Findings)
	return r.end(w)
}

// Table prints all findings, the worst first, and how many there are of each severity. It
// returns the exit code.
func (r *Result) Table(w io.Writer) ExitCode {
	order := []topology.Severity{topology.Fatal, topology.Unknown, topology.Warning, topology.OK}
	sorted := slices.Clone(r.Findings)
	slices.SortStableFunc(sorted, func(a, b topology.Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	for _, f := range sorted {
		fmt.Fprintf(w, "%-8s %-12s %s\n", f.Severity, cmp.Or(f.Thing, f.Node), f.Message)
		if f.Remedy != "" {
			fmt.Fprintf(w, "%22sfix: %s\n", "", f.Remedy)
		}
	}
	fmt.Fprintln(w)
	return r.end(w)
}

// end prints the summary, and returns the exit code.
func (r *Result) end(w io.Writer) ExitCode {
	for _, line := range r.summary() {
		fmt.Fprintln(w, line)
	}
	return Code(r.Findings)
}

// JSON prints one document. It returns the exit code as an error.
func (r *Result) JSON(w io.Writer) error {
	code := Code(r.Findings)
	if err := JSON(w, document{topology.APIVersion, r.Kind, code.String(), r.summary(), Groups(r.Findings)}); err != nil {
		return err
	}
	return code.AsError()
}

// summary ends with what could not be judged. Lines of files are named even if others are wrong.
func (r *Result) summary() []string {
	var lines, what []string
	n := 0
	for _, f := range r.Findings {
		switch {
		case f.Severity != topology.Unknown:
		case f.File != "":
			lines = append(lines, fmt.Sprintf("%s:%d", f.File, f.Line))
		default:
			n++
			what = append(what, cmp.Or(f.Reason, f.Thing))
		}
	}
	out := slices.Clone(r.Summary)
	if n > 0 && Code(r.Findings) == NotKnown {
		slices.Sort(what)
		out = append(out, fmt.Sprintf("not known: %d of the above could not be judged: %s", n, strings.Join(slices.Compact(what), ", ")))
	}
	if lines = slices.Compact(lines); len(lines) > 0 {
		more := ""
		if n := len(lines) - maxNotJudged; n > 0 {
			more = fmt.Sprintf(" and %d more lines", n)
		}
		out = append(out, "not judged: "+strings.Join(lines[:min(len(lines), maxNotJudged)], ", ")+more)
	}
	return out
}

// maxNotJudged is how many lines the summary names that were not judged.
const maxNotJudged = 5

// Counts says how many findings there are of each severity.
func Counts(findings []topology.Finding) string {
	var n [4]int
	for _, f := range findings {
		n[f.Severity]++
	}
	return fmt.Sprintf("fatal: %d, warnings: %d, unknown: %d, ok: %d", n[topology.Fatal], n[topology.Warning], n[topology.Unknown], n[topology.OK])
}
