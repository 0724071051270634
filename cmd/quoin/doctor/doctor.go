// Package doctor says what is wrong with an installation of Quoin and with the settings of
// its neighbours, and how each fault is fixed. It gathers what it needs first, and then
// says what it finds without asking anybody. It changes nothing.
package doctor

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // something works less well than it could
	Problem Level = "problem" // something does not work
	Unknown Level = "unknown" // it could not be seen
)

// Finding is one thing that was looked at.
type Finding struct {
	// Check names what was looked at, such as slinky or publisher.
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	// Remedy is the command or the setting that fixes it.
	Remedy string `json:"remedy,omitempty"`
}

// Report is what JSON output is.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Findings   []Finding `json:"findings"`
}

// NewReport returns the findings as JSON shows them.
func NewReport(apiVersion string, all []Finding) Report {
	return Report{APIVersion: apiVersion, Kind: "Diagnosis", Findings: all}
}

// findings collects.
type findings []Finding

func (f *findings) ok(check, format string, args ...any) {
	*f = append(*f, Finding{Check: check, Level: OK, Message: fmt.Sprintf(format, args...)})
}

func (f *findings) warn(check, remedy, format string, args ...any) {
	*f = append(*f, Finding{Check: check, Level: Warning, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (f *findings) problem(check, remedy, format string, args ...any) {
	*f = append(*f, Finding{Check: check, Level: Problem, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// unseen notes that something could not be seen.
func (f *findings) unseen(check string, err error) {
	*f = append(*f, Finding{Check: check, Level: Unknown, Message: err.Error(), Remedy: "run quoin doctor with the rights to see it, such as the cluster administrator's"})
}

// ExitStatus is 1 if there is a problem, 2 if there is none and something could not be seen,
// and otherwise 0.
func ExitStatus(all []Finding) int {
	status := 0
	for _, f := range all {
		switch f.Level {
		case Problem:
			return 1
		case Unknown:
			status = 2
		}
	}
	return status
}

// Print prints the findings for people, the worst first.
func Print(w io.Writer, all []Finding) {
	order := map[Level]int{Problem: 0, Unknown: 1, Warning: 2, OK: 3}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b Finding) int { return cmp.Compare(order[a.Level], order[b.Level]) })
	counts := map[Level]int{}
	for _, f := range sorted {
		counts[f.Level]++
		fmt.Fprintf(w, "%-8s %-12s %s\n", f.Level, f.Check, f.Message)
		if f.Remedy != "" {
			fmt.Fprintf(w, "%22s fix: %s\n", "", f.Remedy)
		}
	}
	fmt.Fprintf(w, "\nproblems: %d, warnings: %d, not seen: %d, ok: %d\n", counts[Problem], counts[Warning], counts[Unknown], counts[OK])
}
