package lint

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// Finding is one thing that is wrong with a file, or that is not judged. Fatal means
// that slurmctld, or for gres.conf slurmd, does not start with the file. It also means
// that slurmctld would drain nodes, if Options.Nodes say what slurm.conf has.
type Finding struct {
	File string
	slurmconf.Remark
}

// String returns "file:line: severity: message (rule); advice".
func (f Finding) String() string {
	severity := "warning"
	if f.Fatal {
		severity = "fatal"
	}
	return fmt.Sprintf("%s:%d: %s: %s (%s); %s", f.File, f.Line, severity, f.Message, f.Rule, f.Advice)
}

// HasFatal reports whether any finding is fatal.
func HasFatal(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Fatal })
}

// Rules that several files of this package use.
const (
	ruleHostlist = "BrokenHostlist"
	ruleUnknown  = "UnknownNode"
)
