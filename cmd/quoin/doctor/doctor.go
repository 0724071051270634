// Package doctor says what is wrong with an installation of Quoin and with the settings of
// its neighbours, and how each fault is fixed. It gathers what it needs first, and then
// says what it finds without asking anybody. It changes nothing.
//
// A remedy is words, a command, or words, a colon and a command. The command ends the remedy, and runs
// in bash and in zsh as it is printed.
package doctor

import (
	"fmt"

	"github.com/quoin-hpc/quoin/topology"
)

// findings collects. What was looked at is the Thing of a finding, such as slinky or publisher.
type findings []topology.Finding

func (f *findings) ok(what, format string, args ...any) {
	f.add(topology.OK, what, "", format, args...)
}

func (f *findings) warn(what, remedy, format string, args ...any) {
	f.add(topology.Warning, what, remedy, format, args...)
}

func (f *findings) fatal(what, remedy, format string, args ...any) {
	f.add(topology.Fatal, what, remedy, format, args...)
}

func (f *findings) unknown(what, remedy, format string, args ...any) {
	f.add(topology.Unknown, what, remedy, format, args...)
}

func (f *findings) add(s topology.Severity, what, remedy, format string, args ...any) {
	*f = append(*f, topology.Finding{Subject: topology.Subject{Thing: what}, Severity: s, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// moreRights is the remedy for what could not be read.
const moreRights = "run quoin doctor with the rights to see it, such as the cluster administrator's"
