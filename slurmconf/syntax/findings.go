package syntax

import (
	"fmt"

	"github.com/quoin-hpc/quoin/topology"
)

// The reasons that readers of several files have.
const (
	ReasonSyntax     = "Syntax"
	ReasonUnknownKey = "UnknownKey"
	ReasonName       = "Name"
	ReasonBadValue   = "BadValue"
	ReasonNotJudged  = "NotJudged"
)

// Findings collects the findings on one file.
type Findings struct {
	File string
	All  []topology.Finding
}

// Fatal adds what Slurm refuses.
func (f *Findings) Fatal(line int, reason, remedy, format string, args ...any) {
	f.Add(topology.Fatal, line, reason, remedy, format, args...)
}

// Warn adds what Slurm ignores, or reads otherwise than it looks.
func (f *Findings) Warn(line int, reason, remedy, format string, args ...any) {
	f.Add(topology.Warning, line, reason, remedy, format, args...)
}

// NotJudged adds what nobody looked into.
func (f *Findings) NotJudged(line int, format string, args ...any) {
	f.Add(topology.Unknown, line, ReasonNotJudged, "check it with Slurm itself", format, args...)
}

// Add adds a finding.
func (f *Findings) Add(s topology.Severity, line int, reason, remedy, format string, args ...any) {
	f.All = append(f.All, topology.Finding{Subject: topology.Subject{File: f.File, Line: max(line, 1)}, Severity: s, Reason: reason, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}
