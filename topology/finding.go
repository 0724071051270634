package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Finding is one thing that is wrong, or that could not be judged: with whom, why, what to
// do, and how bad it is. All rooms say it in this type, and cmd/quoin/show prints it. Its JSON
// is that of problems in reports and stored plans: warnings about a node. Commands print all
// of a finding.
type Finding struct {
	Subject
	// Severity is a warning if a room says nothing else.
	Severity Severity `json:"-"`
	// Reason is one CamelCase word for programs, stable over releases of Quoin. REASONS.md
	// lists the words. It is empty if the subject is a part of the installation.
	Reason string `json:"reason"`
	// Message says in words what is wrong.
	Message string `json:"message" max:"512"`
	// Remedy says what to do, or is empty.
	Remedy string `json:"-"`
}

// Subject is what a finding is about: a node, a line of a file, or another thing. It is
// empty if the message names what it is about.
type Subject struct {
	// Node is a node's name. It is empty in a node's own report.
	Node string `json:"node,omitempty"`
	// File is the name of a file, and Line counts from 1.
	File string `json:"-"`
	Line int    `json:"-"`
	// Thing names anything else, such as "block at place 2", or publisher.
	Thing string `json:"-"`
}

// Severity says how bad a finding is.
type Severity uint8

// The severities.
const (
	// Warning: something works less well than it could.
	Warning Severity = iota
	// Fatal: something does not work. Of a file: Slurm does not start with the file, or drains nodes.
	Fatal
	// Unknown: it could not be judged. It is neither fine nor wrong.
	Unknown
	// OK: it was looked at and is as it should be.
	OK
)

var severities = [...]string{Warning: "warning", Fatal: "fatal", Unknown: "unknown", OK: "ok"}

// String returns the word that people and programs see.
func (s Severity) String() string { return severities[s] }

// MarshalText returns the word.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the word.
func (s *Severity) UnmarshalText(word []byte) error {
	i := slices.Index(severities[:], string(word))
	if i < 0 {
		return fmt.Errorf("severity %q: want one of warning, fatal, unknown, ok", word)
	}
	*s = Severity(i)
	return nil
}

// Has reports whether any finding has the severity.
func Has(findings []Finding, s Severity) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == s })
}

// CompareFindings orders what is said of nodes: by node, then by reason, then by message.
func CompareFindings(a, b Finding) int {
	return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
}

// String returns "file:line: severity: message (Reason); remedy" for a line of a file, and
// otherwise "subject: Reason: message".
func (f Finding) String() string {
	if f.File != "" {
		return fmt.Sprintf("%s:%d: %s: %s (%s); %s", f.File, f.Line, f.Severity, f.Message, f.Reason, f.Remedy)
	}
	s := f.Reason + ": " + f.Message
	if subject := cmp.Or(f.Node, f.Thing); subject != "" {
		s = subject + ": " + s
	}
	return s
}
