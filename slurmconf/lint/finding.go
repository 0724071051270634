package lint

import "fmt"

// Severity says what a finding means for Slurm.
type Severity string

const (
	// Fatal means that slurmctld, or for gres.conf slurmd, does not start with the
	// file. It also means that slurmctld would drain nodes, if Options.Nodes say
	// what slurm.conf has.
	Fatal Severity = "fatal"
	// Warning means that Slurm starts, and something is not as it should be.
	Warning Severity = "warning"
)

// Finding is one thing that is wrong with a file, or that is not judged.
type Finding struct {
	File string
	Line int
	// Rule is one CamelCase word, stable over releases of Quoin.
	Rule     string
	Severity Severity
	Message  string
	// Advice says what to do.
	Advice string
}

// String returns "file:line: severity: message (rule); advice".
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s (%s); %s", f.File, f.Line, f.Severity, f.Message, f.Rule, f.Advice)
}

// HasFatal reports whether any finding is fatal.
func HasFatal(findings []Finding) bool {
	for _, f := range findings {
		if f.Severity == Fatal {
			return true
		}
	}
	return false
}

// Rules that several files of this package use.
const (
	ruleSyntax     = "Syntax"
	ruleType       = "WrongType"
	ruleUnknownKey = "UnknownKey"
	ruleKeyTwice   = "KeyTwice"
	ruleKind       = "TopologyKind"
	ruleBlockSizes = "BlockSizes"
	ruleNoName     = "MissingName"
	ruleEmptyFile  = "EmptyFile"
	ruleHostlist   = "BrokenHostlist"
	ruleUnknown    = "UnknownNode"
	ruleNotJudged  = "NotJudged"
)

// report collects the findings of one file after another.
type report struct {
	file     string
	findings []Finding
}

func (r *report) add(s Severity, line int, rule, advice, message string) {
	r.findings = append(r.findings, Finding{File: r.file, Line: line, Rule: rule, Severity: s, Message: message, Advice: advice})
}

func (r *report) fatal(line int, rule, advice, message string) {
	r.add(Fatal, line, rule, advice, message)
}

func (r *report) warn(line int, rule, advice, message string) {
	r.add(Warning, line, rule, advice, message)
}

// notJudged says what Lint did not look into.
func (r *report) notJudged(line int, what string) {
	r.warn(line, ruleNotJudged, "check it with Slurm itself", what)
}

// odd warns of a host list that Slurm reads otherwise than it looks.
func (r *report) odd(line int, where, odd string) {
	if odd != "" {
		r.warn(line, "OddHostlist", "write ranges such as n[001-018,020]", where+": "+odd)
	}
}
