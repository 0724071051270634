package show

import (
	"strconv"

	"github.com/quoin-hpc/quoin/topology"
)

// ExitCode is the exit status of a command that has printed its result. A command ends with one
// by returning it as an error.
type ExitCode int

// The exit codes of all commands. ExitCodes explains them to users.
const (
	Fine ExitCode = iota
	Differs
	Trouble
	NotKnown
)

// ExitCodes is the one table of them.
const ExitCodes = `Exit status of all commands:
  0  fine, or warnings only
  1  it differs, does not work, does not fit, or is not there
  2  trouble: the command could not do its work; stderr says why
  3  not known: something could not be judged, and nothing else is wrong`

// String returns the word that JSON has.
func (c ExitCode) String() string {
	switch c {
	case Fine:
		return "fine"
	case Differs:
		return "differs"
	case Trouble:
		return "trouble"
	case NotKnown:
		return "not known"
	}
	return "exit status " + strconv.Itoa(int(c))
}

func (c ExitCode) Error() string { return c.String() }

// AsError returns nil for Fine.
func (c ExitCode) AsError() error {
	if c == Fine {
		return nil
	}
	return c
}

// Code returns what findings mean for the exit status.
func Code(findings []topology.Finding) ExitCode {
	switch {
	case topology.Has(findings, topology.Fatal):
		return Differs
	case topology.Has(findings, topology.Unknown):
		return NotKnown
	}
	return Fine
}
